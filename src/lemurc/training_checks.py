"""Does the compiled step train as eager does? Asked of the step itself, not of a twin.

The first step from empty slots tells the gradient it used: Adam's and Lion's averages and
SGD's momentum are it, but for a factor, and so is the change of a parameter under a rate that
dwarfs it. A gradient passes if its largest error, against autograd in float64, is at most 1e-5
of its largest entry or twice what eager's own is; one that is truly zero, as that of a bias
before a batch norm, by what is next to nothing beside the others. The update is then held
against the rule in float64 for the gradient found, so that rounding that Adam makes large
does not count twice.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from lemurc import pytree
from lemurc.verification import TOLERANCE, Array, Comparison, compare, tolerance_of

if TYPE_CHECKING:
    from lemurc.frontend.eager_training import EagerTraining
    from lemurc.frontend.training import TrainingModel
    from lemurc.runtime.session import Session
    from lemurc.training import TrainingOptions

RELATIVE = 1e-5
EAGER_ERRORS_ALLOWED = 2.0
ZERO = 1e-10
"""A gradient this far below the largest of any parameter is zero but for rounding."""
ZERO_ALLOWED = 1e-6
CURVE_ALLOWED = 0.01
_LARGE_RATE = float(2**20)


def training_check(
    model: "TrainingModel", options: "TrainingOptions", session: "Session"
) -> tuple[list[Comparison], str]:
    """What differs, gradient by gradient, and what was compared."""
    first = "step" if options.accumulate == 1 else "accumulate"
    if first in model.program.random:
        return [], "gradients were not compared, as the step draws random numbers"
    compared, reference = _one_step(model, options, session)
    what = f"gradients of {len(model.eager.trained)} tensors against {reference}"
    if options.verify_steps:
        compared += _curve(model, options, session)
        what += f"; losses of {options.verify_steps} steps"
    session.reset()
    return compared, what


def _one_step(
    model: "TrainingModel", options: "TrainingOptions", session: "Session"
) -> tuple[list[Comparison], str]:
    eager = model.eager
    rule = eager.rule
    lr = 1.0 if rule.slots else _LARGE_RATE
    session.reset()
    before = session.state()
    loss = _step(model, session, lr, 1, options.accumulate > 1)
    after = session.state()
    share = 1.0 / options.accumulate
    found = {}
    for name in eager.trained:
        slots = (after[slot] for slot in model.slots(name))
        values = [value.astype(np.float64) for value in (before[name], after[name], *slots)]
        found[name] = rule.first_gradient(values[0], values[1], tuple(values[2:]), lr)
    own_loss, own = eager.gradients(exact=False, share=share)
    exact, reference = _exact(eager, share)
    compared = _gradients(found, own, exact, options.tolerance)
    allowed = tolerance_of("float32", options.tolerance)
    compared.append(compare("loss", np.asarray(loss), np.asarray(own_loss), allowed))
    for name, gradient in found.items():
        want = eager.expected(gradient, before[name], lr).astype(before[name].dtype)
        allowed = tolerance_of(str(want.dtype), options.tolerance)
        compared.append(compare(f"{name} after a step", after[name], want, allowed))
    return compared, reference


def _exact(eager: "EagerTraining", share: float) -> tuple[dict[str, Array] | None, str]:
    try:
        return eager.gradients(exact=True, share=share)[1], "eager in float64"
    except Exception:  # whatever the user's own code says to float64
        return None, "eager in its own precision, as the model does not run in float64"


def _gradients(
    found: dict[str, Array],
    own: dict[str, Array],
    exact: dict[str, Array] | None,
    tolerance: float | None,
) -> list[Comparison]:
    references = own if exact is None else exact
    wide = {name: np.asarray(value, np.float64) for name, value in references.items()}
    largest = max((_largest(value) for value in wide.values()), default=0.0)
    relative = TOLERANCE["float32"] if exact is None else RELATIVE
    relative = relative if tolerance is None else tolerance
    compared = []
    for name, want in wide.items():
        scale = _largest(want)
        rounding = _largest(own[name].astype(np.float64) - want)
        allowed = max(relative * scale, EAGER_ERRORS_ALLOWED * rounding)
        if scale <= ZERO * largest:
            scale = largest
            allowed = max(allowed, ZERO_ALLOWED * largest)
        scale = scale or 1.0
        compared.append(
            _compare_scaled(f"gradient of {name}", found[name], want, scale, allowed / scale)
        )
    return compared


def _compare_scaled(name: str, got: Array, want: Array, scale: float, allowed: float) -> Comparison:
    """Errors in units of `scale`, which need not be the largest entry of `want`."""
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        detail = "NaN or infinities in other places"
        return Comparison(name, False, float("inf"), allowed, detail)
    error = _largest(np.where(np.isfinite(want), got - want, 0.0)) / scale
    return Comparison(name, error <= allowed, error, allowed)


def _largest(value: Array) -> float:
    return float(np.abs(value).max()) if value.size else 0.0


def _curve(
    model: "TrainingModel", options: "TrainingOptions", session: "Session"
) -> list[Comparison]:
    """Losses of steps on one batch, where eager itself knows them to a hundredth."""
    steps, count = options.verify_steps, options.accumulate
    lr = float(model.program.examples["step" if count == 1 else "update"][-1])
    session.reset()
    got = [_step(model, session, lr, count, count > 1) for _ in range(steps)]
    own = model.eager.losses(steps, lr, exact=False)
    try:
        want = model.eager.losses(steps, lr, exact=True)
    except Exception:  # as in _exact
        want = own
    compared = []
    for number, (ours, theirs, best) in enumerate(zip(got, own, want, strict=True), 1):
        scale = abs(best) or 1.0
        if abs(theirs - best) <= CURVE_ALLOWED * scale:
            error = abs(ours - best) / scale
            name = f"loss of step {number}"
            compared.append(Comparison(name, error <= CURVE_ALLOWED, error, CURVE_ALLOWED))
    return compared


def _step(
    model: "TrainingModel", session: "Session", lr: float, count: int, accumulates: bool
) -> float:
    """The loss of one step, the gradient of the batch taken `count` times."""
    rate = np.asarray(lr, np.float32)
    if not accumulates:
        *arrays, _ = model.program.examples["step"]
        return _call(model, session, "step", [*arrays, rate])
    losses = [
        _call(model, session, "accumulate", model.program.examples["accumulate"])
        for _ in range(count)
    ]
    _call(model, session, "update", [rate])
    return losses[0]


def _call(model: "TrainingModel", session: "Session", name: str, arrays: list[Any]) -> float:
    args, kwargs = pytree.unflatten(model.program.functions[name].in_tree, arrays)
    result = session.call(name, args, kwargs, None)
    return float(result["loss"]) if "loss" in result else 0.0
