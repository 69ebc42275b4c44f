"""Stages of operators that PyTorch runs: where the planner puts them, what the artifact says."""

from typing import Any

from lemurc.manifest import HOST, HostCall, HostResult

_NEAR = {"bandwidth": 1.0e12, "latency": 1.0e-6}
"""Of a link between two devices that share their memory."""


def with_host(system: dict[str, Any], module: Any) -> dict[str, Any]:
    """With the device of operators that PyTorch runs, where there are any.

    They read and write the memory of the CPU, so nothing moves between the two.
    """
    from lemurc.passes.host_calls import is_host_call
    from lemurc.passes.walking import operations

    if not operations(module.operation, is_host_call):
        return system
    near = [
        {"src": HOST, "dst": device["name"], **_NEAR}
        for device in system["devices"]
        if device["target"] == "cpu"
    ]
    return {
        **system,
        "devices": [*system["devices"], {"name": HOST, "target": HOST}],
        "links": [*system.get("links", ()), *near],
    }


def host_call(run: Any) -> HostCall:
    """What PyTorch calls in a host stage; operands by the numbers of the stage's inputs."""
    from lemurc.passes.attributes import plain
    from lemurc.passes.host_calls import ATTRIBUTE

    call, terminator = (op.operation for op in run.regions[0].blocks[0].operations)
    described = plain(call.attributes[ATTRIBUTE])
    made = list(call.results)
    arguments = list(run.regions[0].blocks[0].arguments)
    places = [arguments.index(value) for value in call.operands]
    dtypes = dict(zip(places, described["inputs"], strict=True))

    def numbered(item: Any) -> Any:
        if isinstance(item, list):
            return [numbered(inner) for inner in item]
        if isinstance(item, dict) and item.keys() <= {"tensor", "number"}:
            return {key: places[at] for key, at in item.items()}
        return item

    return HostCall(
        op=described["op"],
        arguments=tuple(numbered(item) for item in described["arguments"]),
        inputs=tuple(dtypes[at] for at in range(len(arguments))),
        results=tuple(
            HostResult(at, described["results"][at], tuple(max(-1, n) for n in made[at].type.shape))
            for at in map(made.index, terminator.operands)
        ),
    )
