"""`make-mar`: the verbs, and the one place where exceptions become exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import makemar
from makemar.cli.failure import report
from makemar.cli.verbs import VerbGroup, make_app

__all__ = ["main"]

_ROOT_FLAGS = ("--help", "-h", "--install-completion", "--show-completion")
_EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."

app = make_app(
    name="make-mar",
    cls=VerbGroup,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
)


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Print makemar's version.")] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", envvar="MAKEMAR_DEBUG", help="Show an error's traceback; works in any verb."
        ),
    ] = False,
) -> None:
    """Pack PyTorch models for TorchServe, and serve them.

    With flags and no verb this is `make-mar pack`, which takes all the flags of
    torch-model-archiver; there, --version is the model's.
    """
    # Both flags are taken out of the arguments before typer sees them: see `main`.


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; `argv` is without the program's name."""
    arguments, debug = _take_debug(list(sys.argv[1:] if argv is None else argv))
    try:
        if arguments == ["--version"]:
            typer.echo(f"make-mar {makemar.__version__}")
            code: object = 0
        else:
            command = typer.main.get_command(app)
            code = command.main(_route(arguments), prog_name="make-mar", standalone_mode=False)
        # What is still in the buffer can fail too: a full disk, a reader that left.
        sys.stdout.flush()
    except SystemExit as error:
        code = error.code
    except BaseException as error:  # noqa: BLE001 - the edge: everything becomes an exit code
        code = report(error, debug=debug)
    return code if isinstance(code, int) else 0


def _take_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """Remove `--debug` wherever it stands before a `--`, so that no verb has to know it."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [word for word in arguments[:end] if word != "--debug"]
    debug = len(kept) < end or os.environ.get("MAKEMAR_DEBUG", "") not in ("", "0", "false")
    return kept + arguments[end:], debug


def _route(arguments: list[str]) -> list[str]:
    """Choose the verb: flags alone are for `pack`, nothing at all asks for help."""
    if not arguments:
        return ["--help"]
    if arguments[0].startswith("-") and arguments[0] not in _ROOT_FLAGS:
        return ["pack", *arguments]
    return arguments
