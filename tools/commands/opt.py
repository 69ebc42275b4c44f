"""`lemurc opt`: hands its arguments to lemurc.tools.opt, which has mlir-opt's own flags."""

import click


@click.command(
    "opt",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> int:
    """Run a pipeline of passes over MLIR text; `lemurc opt --help` lists the flags."""
    from lemurc.tools.opt import main

    return main(list(arguments))
