"""What went wrong, as one line on stderr and an exit code."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable

import typer

from makemar.errors import Finding, MakeMarError, ServingError

__all__ = [
    "EXIT_FAILURE",
    "EXIT_INTERRUPT",
    "EXIT_USAGE",
    "WrongUsage",
    "complain",
    "one_line",
    "report",
    "report_findings",
]

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPT = 1, 2, 130


class WrongUsage(Exception):  # noqa: N818 - it is no error of the program
    """A command line that typer accepts and makemar cannot."""


# typer exports this leaf of its usage errors; their common parent moved between its versions.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def complain(message: object) -> None:
    """Write one `make-mar: …` line to stderr."""
    typer.echo(f"make-mar: {one_line(str(message))}", err=True)


def report_findings(findings: Iterable[Finding]) -> None:
    """Write a line for each finding."""
    for finding in findings:
        complain(finding)


def report(error: BaseException, *, debug: bool) -> int:
    """Tell what an exception means and return the exit code for it.

    With `debug` the traceback comes first, and a worker's own after that.
    """
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPT
    if isinstance(error, BrokenPipeError):
        _close_stdout()
        return EXIT_FAILURE
    if debug:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
        if isinstance(error, ServingError) and error.traceback:
            typer.echo("\nIn the worker:", err=True)
            for line in error.traceback:
                typer.echo(one_line(line), err=True)
    if isinstance(error, (WrongUsage, _UsageError)):
        complain(_describe_usage(error))
        return EXIT_USAGE
    complain(_describe(error))
    return EXIT_FAILURE


def one_line(text: str) -> str:
    """Write line ends and control characters as escapes: a file name may hold any of them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _describe(error: BaseException) -> str:
    if isinstance(error, MakeMarError):
        return str(error)
    if isinstance(error, OSError):
        return _describe_system(error)
    if isinstance(error, UnicodeDecodeError):
        return f"the input is not UTF-8 text: {error.reason} at byte {error.start}; convert it"
    if isinstance(error, typer.Abort):
        return "aborted"
    detail = f": {error}" if str(error) else ""
    return (
        f"unexpected {type(error).__name__}{detail}; this is a bug in makemar, --debug shows where"
    )


def _describe_system(error: OSError) -> str:
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    place = " -> ".join(names) or "the output"
    reason = error.strerror or str(error) or type(error).__name__
    advice = {
        errno.ENOSPC: "; free some space",
        errno.EACCES: "; check its permissions",
        errno.EISDIR: "; name a file",
        errno.ENOENT: "; check the path",
    }.get(error.errno or 0, "")
    return f"{place}: {reason}{advice}"


def _describe_usage(error: Exception) -> str:
    """Write a usage error as typer words it, and where to read on."""
    message = str(getattr(error, "format_message", error.__str__)()).rstrip(".")
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    return f"{message}; see `{context.command_path} --help`"


def _close_stdout() -> None:
    """Let the interpreter's last flush go nowhere: the reader has left."""
    import os

    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
