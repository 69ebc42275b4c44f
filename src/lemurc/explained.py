"""From a placed module, and where stages took its operations, to explanations of a plan."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lemurc.explanation import ExplainedFunction, ExplainedOperation
from lemurc.manifest import Plan, build

if TYPE_CHECKING:
    from lemurc.passes.manager import Instruments


@dataclass
class Homes:
    """The stage number of each operation, by entry point and name of its first result.

    `outline-stages` takes operations out of the entry, so this is read off before.
    """

    stages: dict[str, dict[str, int]] = field(default_factory=dict)

    def watched(self, watch: "Instruments") -> "Instruments":
        """`watch`, and a look at what `schedule` left."""
        return replace(watch, after_each=self._both(watch.after_each))

    def _both(self, after: Callable[[Any, Any], None] | None) -> Callable[[Any, Any], None]:
        def both(step: Any, operation: Any) -> None:
            if after is not None:
                after(step, operation)
            if getattr(step, "name", "") == "schedule":
                self._read(operation)

        return both

    def _read(self, module: Any) -> None:
        from lemurc.passes.graph import entries, symbol

        for entry in entries(module):
            found = self.stages.setdefault(symbol(entry), {})
            for op in entry.regions[0].blocks[0].operations:
                attributes = op.operation.attributes
                if "lemur.stage" in attributes and "lemur.values" in attributes:
                    for name in attributes["lemur.values"]:
                        found[str(name.value)] = attributes["lemur.stage"].value


def explained(module: Any, plan: Plan, homes: Homes) -> tuple[ExplainedFunction, ...]:
    """What `explain-placement` wrote on each entry of `module`, with the stages of `plan`."""
    from lemurc.passes.attributes import plain
    from lemurc.passes.explain_placement import EXPLANATION
    from lemurc.passes.graph import entries, symbol

    found = []
    for entry in entries(module):
        name = symbol(entry)
        described = build(
            ExplainedFunction, {"function": name, **plain(entry.attributes[EXPLANATION])}
        )
        assert isinstance(described, ExplainedFunction)
        stages = homes.stages.get(name, {})
        numbers = sorted(set(stages.values()))
        steps = plan.steps[name]
        named = {value: steps[numbers.index(number)].stage for value, number in stages.items()}
        operations = tuple(_in_stage(operation, named) for operation in described.operations)
        found.append(replace(described, operations=operations))
    return tuple(found)


def _in_stage(operation: ExplainedOperation, stages: dict[str, str]) -> ExplainedOperation:
    """Clones of cheap producers are called `value@device`."""
    clones = [stage for value, stage in stages.items() if value.startswith(f"{operation.value}@")]
    return replace(operation, stage=stages.get(operation.value, ""), copies=tuple(clones))
