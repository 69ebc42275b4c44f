from lemurc.frontend.torch_export import program_from_torch, EntryPoint
def load(model,args,kwargs,*,dynamic_shapes,**k):
    if isinstance(model,dict): return program_from_torch({n:EntryPoint(*v) for n,v in model.items()},"model")
    return program_from_torch({"main":EntryPoint(model,args,kwargs,dynamic_shapes)},"model")
