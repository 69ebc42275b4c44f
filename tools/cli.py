"""`lemurc`: a table of verbs, each imported when it is typed.

`lemurc --version` and `lemurc run` must start fast and work where only the runtime is
installed, so nothing here or in `commands` imports PyTorch or a compiler at the top.
Whatever goes wrong in any verb comes back to `main`, which tells it and picks the exit
status; verbs raise and never print errors.
"""

import importlib
import sys
from collections.abc import Sequence

import click

from lemurc import __version__
from lemurc.tools import interrupts, quiet
from lemurc.tools.report import Settings, listen, quiet_pipe, tell, tell_interrupt, tell_usage

VERBS = {
    "compile": "Compile a model for the targets you name into one .lemur file.",
    "plan": "Show where a model would run and what that costs, without compiling it.",
    "run": "Run an artifact on the devices that are here.",
    "inspect": "Show what is in an artifact; needs no device.",
    "verify": "Compare an artifact with its golden outputs on every device present.",
    "bisect": "Find the step and the operator that make a compiled model wrong.",
    "bench": "Measure latency and throughput of an artifact.",
    "trace": "Record calls on one timeline over all devices, for Perfetto.",
    "opt": "Run a pipeline of passes over MLIR text, as mlir-opt does.",
    "targets": "List the targets lemurc compiles for.",
    "devices": "List the devices here, and why others are not.",
    "probe": "Measure the devices here and the links between them.",
    "conformance": "Compare a target and its device with eager, case by case.",
    "doctor": "Check versions, drivers and devices; say what is missing and how to get it.",
}


class Verbs(click.Group):
    """Looks a verb up in VERBS; its module is imported only when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command = importlib.import_module(f"lemurc.tools.commands.{name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"there is no verb {args[0]!r}.{_nearest(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


def _nearest(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, VERBS, n=2, cutoff=0.5)
    return f" Did you mean {' or '.join(close)}?" if close else f" Verbs: {', '.join(VERBS)}."


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"lemurc {__version__}")
        ctx.exit()


@click.command(
    cls=Verbs,
    subcommand_metavar="VERB ...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version)
@click.option("--debug", is_flag=True, help="Tracebacks, and everything in the log.")
@click.option("-v", "--verbose", count=True, help="Say more; twice says everything.")
@click.option(
    "--log-level",
    type=click.Choice(["error", "warning", "info", "debug"]),
    help="What goes to stderr besides the result [default: warning].",
)
@click.pass_obj
def cli(settings: Settings, debug: bool, verbose: int, log_level: str | None) -> None:
    """Compile PyTorch models ahead of time for the devices you have.

    Start with: lemurc compile MODEL --targets cpu -o model.lemur
    """
    settings.debug = settings.debug or debug
    listen(
        "debug" if settings.debug else log_level or ("warning", "info", "debug")[min(verbose, 2)]
    )


def main(args: Sequence[str] | None = None) -> None:
    """The console script: runs one verb and exits with its status."""
    argv = list(sys.argv[1:] if args is None else args)
    interrupts.install()
    quiet.before_import()
    sys.exit(run(argv))


def run(argv: list[str]) -> int:
    """Like `main`, but returns the exit status. The statuses are in lemurc.errors."""
    settings = Settings(json="--json" in argv, debug="--debug" in argv)
    try:
        result = cli.main(argv, prog_name="lemurc", standalone_mode=False, obj=settings)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except SystemExit as stop:  # argparse, inside `opt`
        return stop.code if isinstance(stop.code, int) else 0
    except (KeyboardInterrupt, click.Abort):
        return tell_interrupt()
    except BrokenPipeError:
        return quiet_pipe()
    except click.ClickException as error:
        return tell_usage(error, settings)
    except Exception as error:
        return tell(error, argv, settings)
