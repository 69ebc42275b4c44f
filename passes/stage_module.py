"""Build the module of one stage from nodes of an entry function."""

from collections import Counter
from collections.abc import Mapping, Sequence

from torch_mlir import ir

from lemurc.dialects.lemur import MARKERS
from lemurc.manifest import Workload
from lemurc.passes import graph as graphs
from lemurc.passes import workloads
from lemurc.passes.annotate_cost import counts
from lemurc.passes.clone_nodes import clone_nodes, create_function, function_type
from lemurc.passes.graph import Graph
from lemurc.passes.host_calls import host_operator, is_host_call
from lemurc.passes.sizes import Sizes
from lemurc.passes.system import System


class StageModule:
    """One stage: `emit` makes its module and declaration, `call` calls the latter.

    `functions` are those with a body that stages call.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        nodes: Sequence[int],
        inputs: Sequence[ir.Value],
        outputs: Sequence[ir.Value],
        functions: Mapping[str, ir.Operation],
    ) -> None:
        self.name = name
        self._graph = graph
        self._nodes = nodes
        self._inputs = inputs
        self._outputs = outputs
        self._functions = functions
        self._symbols: dict[str, str] = {}
        self._same: dict[str, str] = {}
        self._kinds: Counter[str] = Counter()

    def emit(self, system: System) -> None:
        """At the current insertion point: `module @name {...}` and `func private @name_run`."""
        module = ir.Module.create().operation
        stage = module.clone(ir.InsertionPoint.current).operation
        device = str(self._graph.nodes[self._nodes[0]].attributes["lemur.device"].value)
        stage.attributes["sym_name"] = ir.StringAttr.get(self.name)
        stage.attributes["lemur.device"] = ir.StringAttr.get(device)
        stage.attributes["lemur.target"] = ir.StringAttr.get(system.device(device).target)
        stage.attributes["lemur.cost"] = self._cost()
        stage.attributes["lemur.ops"] = counts(**self._op_counts())
        stage.attributes["lemur.work"] = workloads.attribute(self._work())
        kind = function_type(self._inputs, self._outputs)
        run = create_function("run", kind, stage.regions[0].blocks[0])
        run.attributes["arg_attrs"] = self._argument_attributes()
        run.attributes["res_attrs"] = ir.ArrayAttr.get(
            [_value_name(self._graph.reference(value)) for value in self._outputs]
        )
        clone_nodes(
            self._graph,
            self._nodes,
            self._inputs,
            self._outputs,
            run.regions[0].blocks[0],
            lambda op: self._localise_calls(op, stage),
        )
        declaration = create_function(f"{self.name}_run", kind, None)
        declaration.attributes["sym_visibility"] = ir.StringAttr.get("private")

    def call(self, operands: Sequence[ir.Value]) -> ir.Operation:
        return ir.Operation.create(
            "func.call",
            results=[value.type for value in self._outputs],
            operands=list(operands),
            attributes={
                "callee": ir.FlatSymbolRefAttr.get(f"{self.name}_run"),
                "lemur.stage": ir.FlatSymbolRefAttr.get(self.name),
            },
        )

    def _argument_attributes(self) -> ir.ArrayAttr:
        attributes = []
        for value in self._inputs:
            reference = self._graph.reference(value)
            if self._graph.is_weight(value):
                name = ir.StringAttr.get(reference.removeprefix("param:"))
                attributes.append(ir.DictAttr.get({"lemur.param": name}))
            else:
                attributes.append(_value_name(reference))
        return ir.ArrayAttr.get(attributes)

    def _cost(self) -> ir.DictAttr:
        """Sums over the operations; live bytes are the largest."""
        costs = [
            {named.name: named.attr.value for named in op.attributes["lemur.cost"]}
            for op in (self._graph.nodes[index] for index in self._nodes)
            if "lemur.cost" in op.attributes
        ]
        total = {
            key: sum(cost[key] for cost in costs)
            for key in ("flops", "bytes_read", "bytes_written")
        }
        return counts(**total, live_bytes=max((cost["live_bytes"] for cost in costs), default=0))

    def _work(self) -> list[Workload]:
        sizes = Sizes(self._graph.function)
        ops = (self._graph.nodes[index] for index in self._nodes)
        return workloads.together(
            workloads.workload(op, sizes, self._functions)
            for op in ops
            if "lemur.cost" in op.attributes
        )

    def _op_counts(self) -> dict[str, int]:
        """Composites by kind, those inside a fused one too; other operations by name."""
        found: Counter[str] = Counter()

        def count(op: ir.Operation) -> None:
            body = self._functions.get(graphs.callee(op))
            if is_host_call(op):
                found[host_operator(op)] += 1
            elif body is None:
                found[op.name.rpartition(".")[2]] += 1
            elif body.attributes["lemur.composite"].value == "fused":
                for inner in body.regions[0].blocks[0].operations:
                    if inner.operation.name not in ("func.return", *graphs.FREE):
                        count(inner.operation)
            else:
                found[str(body.attributes["lemur.composite"].value)] += 1

        for index in self._nodes:
            if self._graph.nodes[index].name not in MARKERS:
                count(self._graph.nodes[index])
        return dict(sorted(found.items()))

    def _localise_calls(self, op: ir.Operation, stage: ir.Operation) -> None:
        """Make calls in `op` refer to a copy of the composite inside `stage`."""

        def visit(inner: ir.Operation) -> ir.WalkResult:
            name = graphs.callee(inner)
            if is_host_call(inner):
                inner.attributes["callee"] = ir.FlatSymbolRefAttr.get(_declared(inner, stage))
            elif name in self._functions:
                local = self._symbols.get(name) or self._copy(name, stage)
                inner.attributes["callee"] = ir.FlatSymbolRefAttr.get(local)
            return ir.WalkResult.ADVANCE

        op.walk(visit)

    def _copy(self, name: str, stage: ir.Operation) -> str:
        body = stage.regions[0].blocks[0]
        copy = self._functions[name].clone(ir.InsertionPoint(body)).operation
        self._localise_calls(copy, stage)
        kind = str(copy.attributes["lemur.composite"].value)
        text = _anonymous_text(copy)
        if text in self._same:
            copy.erase()
        else:
            self._same[text] = f"{kind}_{self._kinds[kind]}"
            self._kinds[kind] += 1
            copy.attributes["sym_name"] = ir.StringAttr.get(self._same[text])
        self._symbols[name] = self._same[text]
        return self._same[text]


def _declared(call: ir.Operation, stage: ir.Operation) -> str:
    """What `call`, the only one of its stage, calls."""
    kind = function_type(list(call.operands), list(call.results))
    with ir.InsertionPoint(stage.regions[0].blocks[0]), ir.Location.unknown():
        declared = create_function("operator", kind, None)
    declared.attributes["sym_visibility"] = ir.StringAttr.get("private")
    return "operator"


def _value_name(reference: str) -> ir.DictAttr:
    return ir.DictAttr.get({"lemur.value": ir.StringAttr.get(reference)})


def _anonymous_text(function: ir.Operation) -> str:
    """Equal for functions that differ in name and origin only."""
    kept = {
        name: function.attributes[name]
        for name in ("sym_name", "lemur.module_path")
        if name in function.attributes
    }
    function.attributes["sym_name"] = ir.StringAttr.get("_")
    if "lemur.module_path" in kept:
        del function.attributes["lemur.module_path"]
    # local scope: numbering the values of the whole module would cost as much each time
    text: str = function.get_asm(use_local_scope=True)
    for name, attribute in kept.items():
        function.attributes[name] = attribute
    return text
