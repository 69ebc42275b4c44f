"""Flags that several verbs share, and the units people write on a command line."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from lemurc.options import OBJECTIVES, ORDERS

F = TypeVar("F", bound=Callable[..., Any])

_SECONDS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """`90`, `90s`, `10m`, `1.5h`, `250ms`, as a click callback."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|)", value)
    if match is None or float(match[1]) == 0:
        raise click.BadParameter(f"{value!r} is not a duration: write 90s, 10m or 1.5h")
    return float(match[1]) * _SECONDS[match[2]]


def micro_batches(ctx: click.Context, param: click.Parameter, value: str) -> int | str:
    """ "auto", or a number; what is neither is refused with the other options."""
    return int(value) if value.isdecimal() else value


def size_in_bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """`800M`, `8G`, `8GiB`, or plain bytes, as a click callback; powers of 1024."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", value, re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise click.BadParameter(f"{value!r} is not a size: write 800M or 8G")
    return int(float(match[1]) * _BYTES[match[2].upper()])


def common(function: F) -> F:
    """`--json`, and `--debug` where people type it: after the verb. `main` reads both."""
    debug = click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    return as_json(debug(function))


_IMPORTS = click.option(
    "--import",
    "imports",
    metavar="MODULE",
    multiple=True,
    help="A Python module, or file, that defines operators of your own: it is imported first.",
)
_MODEL = (
    click.option(
        "--targets",
        default="cpu",
        show_default=True,
        metavar="A,B",
        help="What may be there at run time; `lemurc targets` lists them with "
        "their architectures; vulkan's default is that of the GPU here, else the baseline.",
    ),
    click.option(
        "--input",
        "inputs",
        metavar="INPUT",
        multiple=True,
        help="An example input: 1x3x224x224xf32, @x.npy or name=@x.npy.",
    ),
    click.option(
        "--dynamic",
        metavar="DIM",
        multiple=True,
        help="A dimension that varies: 0.1=seq:1..512 (input.dim=name:min..max); several between "
        "commas, or repeat.",
    ),
    click.option(
        "-O",
        "opt_level",
        type=click.IntRange(0, 3),
        metavar="0..3",
        default=2,
        show_default=True,
        help="How hard to optimise.",
    ),
    click.option(
        "--model",
        "model_factory",
        metavar="FILE.py:NAME",
        help="The function that builds the module a state dict belongs to.",
    ),
    click.option(
        "--allow-host-ops",
        is_flag=True,
        help="Let PyTorch run, on the CPU, the operators that nothing compiles.",
    ),
    _IMPORTS,
    click.option(
        "--trust-pickle", is_flag=True, help="Unpickle MODEL, which runs any code that is in it."
    ),
)


def model(function: F) -> F:
    """What says which program MODEL is, and for what: shared by `compile`, `plan` and `bisect`."""
    for option in reversed(_MODEL):
        function = option(function)
    return function


_PLANNING = (
    click.option(
        "--pin",
        "pins",
        metavar="WHAT=DEVICE",
        multiple=True,
        help="Keep modules on a device: 'encoder.layer.0.*=vulkan', or all of whose path a regular "
        "expression is, 're:.*norm[12]=cpu', or a kind of operation, 'kind:softmax=cpu'.",
    ),
    click.option(
        "--forbid",
        "forbids",
        metavar="WHAT=DEVICE",
        multiple=True,
        help="Keep modules, or what else --pin takes, off a device, or all devices of a target.",
    ),
    click.option(
        "--system",
        type=click.Path(),
        help="A file that describes the devices and links to plan for.",
    ),
    click.option(
        "--split",
        "splits",
        metavar="GLOB=N",
        multiple=True,
        help="Split the weights of modules into N parts, for devices to share: 'lm_head=3'. What "
        "fits no device is split anyway; in 1 part: never.",
    ),
    click.option(
        "--objective",
        type=click.Choice(OBJECTIVES),
        default="latency",
        show_default=True,
        help="What plans over several devices are best at: one call, a stream of requests, or "
        "the memory of the fullest device.",
    ),
    click.option(
        "--order",
        type=click.Choice(ORDERS),
        default="memory",
        show_default=True,
        help="Operations in an order that needs little memory, or in the program's own.",
    ),
    click.option(
        "--micro-batches",
        metavar="auto|N",
        default="auto",
        show_default=True,
        callback=micro_batches,
        help="Cut the batch of a call in N parts, so that devices overlap; auto: with "
        "--objective throughput, in as many as are quickest.",
    ),
    click.option(
        "--budget",
        "budget_s",
        metavar="TIME",
        callback=seconds,
        help="Stop compiling after this time: 10m.",
    ),
    click.option(
        "--max-rss",
        metavar="SIZE",
        callback=size_in_bytes,
        help="Stop a compiler process that takes more memory: 8G.",
    ),
    click.option(
        "--largest-stage",
        type=click.IntRange(min=1),
        metavar="N",
        help="At most N operations to a stage, to measure them apart.",
    ),
)


def planning(function: F) -> F:
    """What plans are made for and within which limits: shared by `compile` and `plan`."""
    for option in reversed(_PLANNING):
        function = option(function)
    return function


def devices(function: F) -> F:
    return click.option(
        "--device",
        "devices",
        multiple=True,
        metavar="DEVICE",
        help="Use only this device (cpu, cuda:0, vulkan:1, ...); repeatable.",
    )(function)


def imports(function: F) -> F:
    """For what runs artifacts: they leave operators to PyTorch, and import nothing themselves."""
    return _IMPORTS(function)


def strict(function: F) -> F:
    return click.option(
        "--strict",
        is_flag=True,
        help="A device that is missing or fails is an error, never a fallback.",
    )(function)


def simulate(function: F) -> F:
    return click.option(
        "--simulate",
        type=click.Path(),
        metavar="SYSTEM.json",
        help="Simulate the devices and links that this file describes.",
    )(function)


def inputs(function: F) -> F:
    return click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="INPUT",
        help="2x16xi64 (drawn), @x.npy, @all.npz or name=@x.npy; repeatable, in call order "
        "[default: the artifact's golden inputs].",
    )(function)


def entry_point(function: F) -> F:
    return click.option(
        "--function", metavar="NAME", help="The entry point [default: main, or the only one]."
    )(function)
