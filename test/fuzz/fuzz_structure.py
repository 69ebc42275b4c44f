"""Kinds of statements that move, reduce, search, multiply and convolve."""

from fuzz_elementwise import NUMBERS
from fuzz_graphs import DTYPES, FLOATS, INTEGERS, VARIANTS, Draw, Kind, Made, Value

KINDS: dict[str, Kind] = {}
SOME = (1, 2, 3, 4)


def _kind(function: Kind) -> Kind:
    KINDS[function.__name__.strip("_")] = function
    return function


def _reduction(name: str, template: str, dtypes: tuple[str, ...], exact: bool, jumps: bool) -> None:
    def make(draw: Draw) -> Made | None:
        x = draw.pick(dtypes, SOME, exact=jumps)
        keep = draw.chance(0.4)
        return template.format(x.name, d=draw.dim(x), k=keep), (x,), exact

    KINDS[name] = make


for _row in (
    ("sum", "torch.sum({}, {d}, keepdim={k})", FLOATS, False, False),
    ("sum_all", "torch.sum({})", FLOATS, False, False),
    ("integer_sum", "torch.sum({}, {d}, keepdim={k})", (*INTEGERS, "bool"), True, False),
    ("integer_prod", "torch.prod({}.clamp(0, 2), {d}, keepdim={k})", INTEGERS, True, False),
    ("mean", "torch.mean({}, {d}, keepdim={k})", FLOATS, False, False),
    ("prod", "torch.prod({}, {d}, keepdim={k})", FLOATS, False, False),
    ("var", "torch.var({}, {d}, keepdim={k})", FLOATS, False, False),
    ("std_biased", "torch.std({}, {d}, unbiased=False, keepdim={k})", FLOATS, False, False),
    ("norm", "torch.linalg.vector_norm({}, 2, {d}, keepdim={k})", FLOATS, False, False),
    ("norm1", "torch.linalg.vector_norm({}, 1, {d}, keepdim={k})", FLOATS, False, False),
    ("logsumexp", "torch.logsumexp({}, {d}, keepdim={k})", FLOATS, False, False),
    ("softmax", "torch.softmax({}, {d})", FLOATS, False, False),
    ("log_softmax", "torch.log_softmax({}, {d})", FLOATS, False, False),
    ("normalize", "F.normalize({}, dim={d})", FLOATS, False, False),
    ("amax", "torch.amax({}, {d}, keepdim={k})", NUMBERS, True, False),
    ("amin", "torch.amin({}, {d}, keepdim={k})", NUMBERS, True, False),
    ("max_values", "torch.max({}, {d}, keepdim={k}).values", NUMBERS, True, False),
    ("max_indices", "torch.max({}, {d}, keepdim={k}).indices", NUMBERS, True, True),
    ("min_values", "torch.min({}, {d}, keepdim={k}).values", NUMBERS, True, False),
    ("min_indices", "torch.min({}, {d}, keepdim={k}).indices", NUMBERS, True, True),
    ("max_all", "torch.max({})", NUMBERS, True, False),
    ("min_all", "torch.min({})", NUMBERS, True, False),
    ("argmax", "torch.argmax({}, {d}, keepdim={k})", NUMBERS, True, True),
    ("argmin", "torch.argmin({}, {d}, keepdim={k})", NUMBERS, True, True),
    ("argmax_all", "torch.argmax({})", NUMBERS, True, True),
    ("any", "torch.any({}, {d}, keepdim={k})", DTYPES, True, True),
    ("all", "torch.all({}, {d}, keepdim={k})", DTYPES, True, True),
    ("any_all", "torch.any({})", DTYPES, True, True),
    ("count_nonzero", "torch.count_nonzero({}, {d})", DTYPES, True, True),
    ("cumsum", "torch.cumsum({}, {d})", FLOATS, False, False),
    ("integer_cumsum", "torch.cumsum({}, {d})", (*INTEGERS, "bool"), True, False),
    ("cumprod", "torch.cumprod({}, {d})", FLOATS, False, False),
    ("cummax", "torch.cummax({}, {d}).values", NUMBERS, True, False),
    ("cummin", "torch.cummin({}, {d}).values", NUMBERS, True, False),
    ("logcumsumexp", "torch.logcumsumexp({}, {d})", FLOATS, False, False),
    ("sort", "torch.sort({}, {d}).values", NUMBERS, True, False),
    ("sort_descending", "torch.sort({}, {d}, descending=True).values", NUMBERS, True, False),
    ("stable_sort", "torch.sort({}, dim={d}, stable=True).indices", NUMBERS, True, True),
    ("stable_argsort", "torch.argsort({}, dim={d}, stable=True, descending=True)", NUMBERS, True,
     True),
    ("median", "torch.median({}, {d}).values", NUMBERS, True, False),
    ("flip", "torch.flip({}, [{d}])", DTYPES, True, False),
    ("unsqueeze", "torch.unsqueeze({}, {d})", DTYPES, True, False),
    ("squeeze", "torch.squeeze({}, {d})", DTYPES, True, False),
    ("movedim", "torch.movedim({}, {d}, 0)", DTYPES, True, False),
    ("transpose", "torch.transpose({}, 0, {d})", DTYPES, True, False),
    ("flatten", "torch.flatten({})", DTYPES, True, False),
    ("reshape", "torch.reshape({}, (-1,))", DTYPES, True, False),
    ("contiguous_view", "{}.transpose(0, {d}).contiguous().view(-1)", DTYPES, True, False),
    ("repeat_interleave", "torch.repeat_interleave({}, 2, {d})", DTYPES, True, False),
    ("diff", "torch.diff({}, dim={d})", FLOATS, False, False),
    ("unbind", "torch.unbind({}, {d})[0]", DTYPES, True, False),
    ("chunk", "torch.chunk({}, 2, {d})[0]", DTYPES, True, False),
    ("select_last", "torch.select({}, {d}, -1)", DTYPES, True, False),
):  # fmt: skip
    _reduction(*_row)


@_kind
def _topk(draw: Draw) -> Made | None:
    x = draw.pick(NUMBERS, SOME)
    dim, largest = draw.dim(x), draw.chance(0.6)
    k = draw.rng.randint(1, min(4, x.least[dim]))
    return f"torch.topk({x.name}, {k}, {dim}, largest={largest}).values", (x,), True


@_kind
def _permute(draw: Draw) -> Made | None:
    x = draw.pick(ranks=SOME)
    order = draw.rng.sample(range(x.rank), x.rank)
    return f"{x.name}.permute({order})", (x,), True


@_kind
def _slice(draw: Draw) -> Made | None:
    x = draw.pick(ranks=SOME)
    parts = []
    for size in x.least:
        start = draw.rng.choice((0, 0, draw.rng.randrange(size), -draw.rng.randint(1, size)))
        stop = draw.rng.choice(("", "", str(draw.rng.randint(1, size)), "-1"))
        parts.append(f"{start}:{stop}:{draw.rng.choice((1, 1, 2, 3))}")
    return f"{x.name}[{', '.join(parts)}]", (x,), True


@_kind
def _index_integer(draw: Draw) -> Made | None:
    x = draw.pick(ranks=(2, 3, 4))
    index = draw.rng.randrange(-x.least[-1], x.least[-1])
    return f"{x.name}[..., {index}]", (x,), True


@_kind
def _cat(draw: Draw) -> Made | None:
    x = draw.pick(ranks=SOME)
    y = draw.other(x) if draw.chance(0.5) else draw.like(x, broadcast=False)
    return f"torch.cat([{x.name}, {y.name}, {x.name}], {draw.dim(x)})", (x, y), True


@_kind
def _stack(draw: Draw) -> Made | None:
    x = draw.pick(ranks=(0, 1, 2, 3))
    y = draw.like(x, broadcast=False)
    return f"torch.stack([{x.name}, {y.name}], -1)", (x, y), True


@_kind
def _split(draw: Draw) -> Made | None:
    x = draw.pick(ranks=SOME)
    dim = draw.dim(x)
    size = draw.rng.randint(1, x.least[dim])
    return f"torch.split({x.name}, {size}, {dim})[0]", (x,), True


@_kind
def _unflatten(draw: Draw) -> Made | None:
    x = draw.pick(ranks=(1, 2, 3))
    factor = draw.rng.choice((1, 2, 3))
    return f"torch.unflatten({x.name}, -1, (-1, {factor}))", (x,), True


@_kind
def _expand(draw: Draw) -> Made | None:
    x = draw.pick(ranks=(0, 1, 2, 3))
    return f"{x.name}.unsqueeze(0).expand(3, {', '.join(['-1'] * x.rank)})", (x,), True


@_kind
def _repeat(draw: Draw) -> Made | None:
    x = draw.pick(ranks=SOME)
    return f"{x.name}.repeat({[2, *[draw.rng.choice((1, 2)) for _ in x.shape]]})", (x,), True


@_kind
def _roll(draw: Draw) -> Made | None:
    x = draw.pick(ranks=SOME)
    return f"torch.roll({x.name}, {draw.rng.choice((1, -2, 3))}, {draw.dim(x)})", (x,), True


@_kind
def _rot90(draw: Draw) -> Made | None:
    x = draw.pick(ranks=(2, 3, 4))
    return f"torch.rot90({x.name}, {draw.rng.choice((1, 2, -1))})", (x,), True


@_kind
def _triangle(draw: Draw) -> Made | None:
    x = draw.pick(ranks=(2, 3))
    name = draw.rng.choice(("tril", "triu"))
    return f"torch.{name}({x.name}, {draw.rng.choice((-1, 0, 1))})", (x,), True


@_kind
def _diagonal(draw: Draw) -> Made | None:
    x = draw.pick(ranks=(2, 3, 4))
    return f"torch.diagonal({x.name}, {draw.rng.choice((-1, 0, 1))}, 0, 1)", (x,), True


@_kind
def _diag_embed(draw: Draw) -> Made | None:
    x = draw.pick(ranks=(1, 2))
    return f"torch.diag_embed({x.name})", (x,), True


@_kind
def _pad(draw: Draw) -> Made | None:
    x = draw.pick(ranks=SOME)
    widths = [draw.rng.choice((0, 1, 2, -1)) for _ in range(2 * draw.rng.randint(1, x.rank))]
    return f"F.pad({x.name}, {widths}, value={draw.rng.choice((0, 1))})", (x,), True


@_kind
def _pad_mode(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, ranks=(3,))
    mode = draw.rng.choice(("reflect", "replicate", "circular"))
    return f"F.pad({x.name}, [1, 2], mode='{mode}')", (x,), True


def _indices(draw: Draw, x: Value, dim: int, shape: tuple[tuple[int, ...], ...]) -> Value:
    return draw.new("int64", shape, low=0, high=x.least[dim])


def _constant(*sizes: int) -> tuple[tuple[int, ...], ...]:
    return tuple((size,) * VARIANTS for size in sizes)


@_kind
def _gather(draw: Draw) -> Made | None:
    x = draw.pick(ranks=SOME)
    dim = draw.dim(x)
    index = _indices(draw, x, dim, _constant(*x.least))
    return f"torch.gather({x.name}, {dim}, {index.name})", (x, index), True


@_kind
def _take_along(draw: Draw) -> Made | None:
    x = draw.pick(ranks=(2, 3))
    index = _indices(draw, x, 0, _constant(2, *x.least[1:]))
    return f"torch.take_along_dim({x.name}, {index.name}, 0)", (x, index), True


@_kind
def _scatter(draw: Draw) -> Made | None:
    """A permutation as indices: eager does not say which of two writes wins."""
    x = draw.pick(ranks=SOME)
    dim = draw.dim(x)
    source = draw.like(x, broadcast=False)
    index = f"torch.arange({x.name}.shape[{dim}]).flip(0)"
    for _ in range(-dim - 1 if dim < 0 else x.rank - 1 - dim):
        index += ".unsqueeze(-1)"
    index += f".expand({x.name}.shape)"
    return f"torch.scatter({x.name}, {dim}, {index}, {source.name})", (x, source), True


@_kind
def _scatter_constant(draw: Draw) -> Made | None:
    x = draw.pick(NUMBERS, SOME)
    dim = draw.dim(x)
    index = _indices(draw, x, dim, _constant(*x.least))
    return f"torch.scatter({x.name}, {dim}, {index.name}, 2)", (x, index), True


@_kind
def _scatter_add(draw: Draw) -> Made | None:
    x = draw.pick(NUMBERS, SOME)
    dim = draw.dim(x)
    index = _indices(draw, x, dim, _constant(*x.least))
    source = draw.new(x.dtype, _constant(*x.least))
    exact = x.dtype in INTEGERS
    arguments = f"{x.name}, {dim}, {index.name}, {source.name}"
    return f"torch.scatter_add({arguments})", (x, index, source), exact


@_kind
def _scatter_reduce(draw: Draw) -> Made | None:
    x = draw.pick(NUMBERS, SOME)
    dim, how = draw.dim(x), draw.rng.choice(("amax", "amin", "sum"))
    index = _indices(draw, x, dim, _constant(*x.least))
    source = draw.new(x.dtype, _constant(*x.least))
    arguments = f"{x.name}, {dim}, {index.name}, {source.name}, '{how}'"
    exact = how != "sum" or x.dtype in INTEGERS
    return f"torch.scatter_reduce({arguments})", (x, index, source), exact


@_kind
def _index_select(draw: Draw) -> Made | None:
    x = draw.pick(ranks=SOME)
    dim = draw.dim(x)
    index = _indices(draw, x, dim, _constant(3))
    return f"torch.index_select({x.name}, {dim}, {index.name})", (x, index), True


@_kind
def _index_tensor(draw: Draw) -> Made | None:
    x = draw.pick(ranks=(2, 3))
    rows = draw.new("int64", _constant(2, 3), low=-x.least[0], high=x.least[0])
    columns = draw.new("int64", _constant(3), low=-x.least[1], high=x.least[1])
    return f"{x.name}[{rows.name}, {columns.name}]", (x, rows, columns), True


@_kind
def _index_put(draw: Draw) -> Made | None:
    x = draw.pick(NUMBERS, (1, 2, 3))
    index = _indices(draw, x, 0, _constant(4))
    value = draw.new(x.dtype, _constant(4, *[1] * (x.rank - 1)))
    operands = (x, index, value)
    expression = f"torch.index_put({x.name}, ({index.name},), {value.name}, accumulate=True)"
    return expression, operands, x.dtype in INTEGERS


@_kind
def _index_add(draw: Draw) -> Made | None:
    x = draw.pick(NUMBERS, (1, 2, 3))
    index = _indices(draw, x, 0, _constant(3))
    source = draw.new(x.dtype, _constant(3, *x.least[1:]))
    operands = (x, index, source)
    expression = f"torch.index_add({x.name}, 0, {index.name}, {source.name})"
    return expression, operands, x.dtype in INTEGERS


@_kind
def _embedding(draw: Draw) -> Made | None:
    table = draw.new(draw.rng.choice(FLOATS), _constant(7, draw.rng.randint(1, 8)))
    shape = draw.dims(draw.rng.randint(1, 2))
    index = draw.new(draw.rng.choice(("int64", "int32")), shape, low=0, high=7)
    return f"F.embedding({index.name}, {table.name})", (index, table), True


@_kind
def _one_hot(draw: Draw) -> Made | None:
    index = draw.new("int64", draw.dims(draw.rng.randint(1, 2)), low=0, high=5)
    return f"F.one_hot({index.name}, 5)", (index,), True


@_kind
def _bucketize(draw: Draw) -> Made | None:
    x = draw.pick(("float32", "float64", "int64", "int32"), exact=True)
    edges = draw.new(x.dtype, _constant(5))
    right = draw.chance(0.5)
    expression = (
        f"torch.bucketize({x.name}, {edges.name}.nan_to_num().sort().values, right={right})"
    )
    if x.dtype in INTEGERS:
        expression = expression.replace(".nan_to_num()", "")
    return expression, (x, edges), True


@_kind
def _layer_norm(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, SOME, accept=lambda v: v.is_static(v.rank - 1) and v.shape[-1] > 2)
    size = x.sizes[-1]
    if len(set(size)) > 1:
        return None
    w, b = draw.new(x.dtype, (size,)), draw.new(x.dtype, (size,))
    return f"F.layer_norm({x.name}, ({size[0]},), {w.name}, {b.name})", (x, w, b), False


@_kind
def _rms_norm(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, SOME, accept=lambda v: v.is_static(v.rank - 1))
    return f"F.rms_norm({x.name}, ({x.shape[-1]},), eps=1e-3)", (x,), False


@_kind
def _group_norm(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, (3, 4), accept=lambda v: v.is_static(1))
    groups = draw.rng.choice([g for g in (1, 2, 3, 4) if x.shape[1] % g == 0])
    return f"F.group_norm({x.name}, {groups}, eps=1e-3)", (x,), False


@_kind
def _batch_norm(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, (2, 3, 4), accept=lambda v: v.is_static(1))
    if not x.is_static(1):
        return None
    mean, var = draw.new(x.dtype, (x.sizes[1],)), draw.new(x.dtype, (x.sizes[1],))
    return f"F.batch_norm({x.name}, {mean.name}, {var.name}.abs() + 0.5)", (x, mean, var), False


@_kind
def _matmul(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, SOME, accept=lambda v: draw.known(v.sizes[-1]))
    if not draw.known(x.sizes[-1]):
        return None
    columns = draw.dims(1) if draw.chance(0.8) else ()
    y = draw.new(x.dtype, (x.sizes[-1], *columns))
    return f"torch.matmul({x.name}, {y.name})", (x, y), False


@_kind
def _integer_matmul(draw: Draw) -> Made | None:
    x = draw.pick(INTEGERS, (2,), accept=lambda v: draw.known(v.sizes[-1]))
    if not draw.known(x.sizes[-1]):
        return None
    y = draw.new(x.dtype, (x.sizes[-1], *_constant(3)))
    return f"torch.matmul({x.name}, {y.name})", (x, y), True


@_kind
def _bmm(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, (3,), accept=lambda v: all(map(draw.known, v.sizes)))
    if not all(map(draw.known, x.sizes)):
        return None
    y = draw.new(x.dtype, (x.sizes[0], x.sizes[2], *_constant(draw.rng.randint(1, 9))))
    return f"torch.bmm({x.name}, {y.name})", (x, y), False


@_kind
def _gram(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, (2, 3, 4))
    return f"torch.matmul({x.name}, {x.name}.transpose(-1, -2))", (x,), False


@_kind
def _linear(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, SOME, accept=lambda v: v.is_static(v.rank - 1))
    if not x.is_static(x.rank - 1):
        return None
    rows = draw.rng.randint(1, 19)
    w, b = draw.new(x.dtype, (*_constant(rows), x.sizes[-1])), draw.new(x.dtype, _constant(rows))
    return f"F.linear({x.name}, {w.name}, {b.name})", (x, w, b), False


@_kind
def _addmm(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, (2,), accept=lambda v: draw.known(v.sizes[-1]))
    if not draw.known(x.sizes[-1]):
        return None
    y, b = draw.new(x.dtype, (x.sizes[-1], *_constant(5))), draw.new(x.dtype, _constant(5))
    expression = f"torch.addmm({b.name}, {x.name}, {y.name}, beta=0.5, alpha=2)"
    return expression, (b, x, y), False


@_kind
def _einsum(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, (3,))
    equation = draw.rng.choice(("bij,bkj->bik", "bij,bij->b", "bij,cij->bc", "bij,bij->ji"))
    return f"torch.einsum('{equation}', {x.name}, {x.name})", (x,), False


@_kind
def _outer(draw: Draw) -> Made | None:
    x = draw.pick(FLOATS, (1,))
    y = draw.new(x.dtype, draw.dims(1))
    return f"torch.outer({x.name}, {y.name})", (x, y), False


@_kind
def _cdist(draw: Draw) -> Made | None:
    x = draw.pick(("float32", "float64"), (2,))
    return f"torch.cdist({x.name}, {x.name} + 1.0)", (x,), False


def _convolution(name: str, rank: int, function: str, *, transposed: bool = False) -> None:
    def make(draw: Draw) -> Made | None:
        x = draw.pick(FLOATS, (rank + 2,), accept=lambda v: v.is_static(1))
        if not x.is_static(1):
            return None
        channels = x.shape[1]
        groups = draw.rng.choice((1, 1, channels))
        size = [draw.rng.choice((1, 2, 3)) for _ in range(rank)]
        own = channels // groups
        out = draw.rng.randint(1, 4)
        shape = (channels, out, *size) if transposed else (out * groups, own, *size)
        w, b = draw.new(x.dtype, _constant(*shape)), draw.new(x.dtype, _constant(out * groups))
        stride, padding = draw.rng.choice((1, 1, 2)), draw.rng.choice((0, 1))
        more = "" if transposed else f", dilation={draw.rng.choice((1, 1, 2))}"
        if transposed and stride == 2:
            more = ", output_padding=1"
        # A transposed one is computed with zeros between the elements: no zero times infinity.
        weight = f"{w.name}.nan_to_num(0.5, 1.0, -1.0)" if transposed else w.name
        return (
            f"{function}({x.name}, {weight}, {b.name}, stride={stride}, padding={padding}, "
            f"groups={groups}{more})",
            (x, w, b),
            False,
        )

    KINDS[name] = make


_convolution("conv1d", 1, "F.conv1d")
_convolution("conv2d", 2, "F.conv2d")
_convolution("conv_transpose1d", 1, "F.conv_transpose1d", transposed=True)
_convolution("conv_transpose2d", 2, "F.conv_transpose2d", transposed=True)


def _spatial(name: str, ranks: tuple[int, ...], template: str, exact: bool) -> None:
    def make(draw: Draw) -> Made | None:
        x = draw.pick(FLOATS, ranks)
        numbers = {"k": draw.rng.choice((2, 3)), "s": draw.rng.choice((1, 2))}
        return template.format(x.name, p=draw.rng.choice((0, 1)), **numbers), (x,), exact

    KINDS[name] = make


for _name, _ranks, _template, _exact in (
    ("max_pool1d", (3,), "F.max_pool1d({}, {k}, {s}, padding={p})", True),
    ("max_pool2d", (4,), "F.max_pool2d({}, {k}, {s}, padding={p})", True),
    ("max_pool2d_ceil", (4,), "F.max_pool2d({}, {k}, {s}, ceil_mode=True)", True),
    ("avg_pool1d", (3,), "F.avg_pool1d({}, {k}, {s}, padding={p})", False),
    ("avg_pool2d", (4,), "F.avg_pool2d({}, {k}, {s}, padding={p})", False),
    ("avg_pool2d_ceil", (4,), "F.avg_pool2d({}, {k}, {s}, {p}, True, False)", False),
    ("adaptive_avg_pool2d", (4,), "F.adaptive_avg_pool2d({}, ({s}, {k}))", False),
    ("adaptive_max_pool1d", (3,), "F.adaptive_max_pool1d({}, {k})", True),
    ("nearest", (4,), "F.interpolate({}, scale_factor=2, mode='nearest')", True),
    ("bilinear", (4,), "F.interpolate({}, scale_factor=2, mode='bilinear')", False),
    ("pixel_shuffle", (4,), "F.pixel_shuffle({}, 2)", True),
    ("pixel_unshuffle", (4,), "F.pixel_unshuffle({}, 2)", True),
    ("unfold_windows", (1, 2, 3), "{}.unfold(-1, {k}, {s})", True),
    ("im2col", (4,), "F.unfold({}, {k}, padding={p})", True),
    ("glu", (1, 2, 3), "F.glu({}, -1)", False),
):
    _spatial(_name, _ranks, _template, _exact)


def _is_finite(value: Value) -> bool:
    """Eager's fused attention makes 0 of NaN scores, where its plain one keeps NaN."""
    return all(bool(tensor.isfinite().all()) for tensor in value.tensors)


@_kind
def _sdpa(draw: Draw) -> Made | None:
    x = draw.pick(("float32", "float64", "float16"), (4,), accept=_is_finite)
    if not _is_finite(x):
        return None
    causal = draw.chance(0.4)
    call = f"F.scaled_dot_product_attention({x.name}, {x.name} * 0.5, {x.name}"
    return f"{call}, is_causal={causal})", (x,), False


@_kind
def _sdpa_mask(draw: Draw) -> Made | None:
    x = draw.pick(("float32",), (3, 4), accept=_is_finite)
    mask = draw.like(x, "float32", broadcast=False)
    if not (_is_finite(x) and _is_finite(mask)):
        return None
    q = f"{x.name}, {x.name}, {x.name}"
    bias = f"{mask.name}[..., :1] + torch.zeros({x.name}.shape[-2])"
    return f"F.scaled_dot_product_attention({q}, attn_mask={bias})", (x, mask), False


@_kind
def _arange(draw: Draw) -> Made | None:
    x = draw.pick(NUMBERS, SOME)
    return f"torch.arange({x.name}.shape[-1]) + {x.name}", (x,), True


@_kind
def _new_full(draw: Draw) -> Made | None:
    x = draw.pick(ranks=SOME)
    return f"{x.name}.new_full(({x.name}.shape[0], 2), 1)", (x,), True


@_kind
def _meshgrid(draw: Draw) -> Made | None:
    x, y = draw.pick(ranks=(1,)), draw.pick(ranks=(1,))
    return f"torch.meshgrid({x.name}, {y.name}, indexing='xy')[1]", (x, y), True


@_kind
def _masked_softmax(draw: Draw) -> Made | None:
    x = draw.pick(("float32", "float16"), (2, 3, 4))
    mask = draw.like(x, "bool", broadcast=False)
    filled = f"{x.name}.masked_fill({mask.name}, -inf)"
    return f"torch.softmax({filled}, -1)", (x, mask), False


@_kind
def _cross_entropy(draw: Draw) -> Made | None:
    x = draw.pick(("float32", "float64"), (2,), accept=lambda v: draw.known(v.sizes[0]))
    if not draw.known(x.sizes[0]):
        return None
    target = draw.new("int64", (x.sizes[0],), low=0, high=x.least[1])
    return f"F.cross_entropy({x.name}, {target.name})", (x, target), False
