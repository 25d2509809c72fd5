"""`make-mar check`."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from makemar.cli.failure import EXIT_FAILURE, WrongUsage, complain
from makemar.cli.output import write_json, write_line, write_table
from makemar.cli.progress import waiting

if TYPE_CHECKING:
    from makemar.configs import ServerConfig
    from makemar.serving import CheckReport

__all__ = ["check"]

_UNKNOWN_TYPE = "application/octet-stream"
_VERDICTS = {True: "held", False: "BROKEN", None: "not looked at"}


def check(
    archive: Annotated[Path, typer.Argument(help="A .mar, a .tar.gz or a model directory.")],
    inputs: Annotated[
        list[Path],
        typer.Option("--input", "-i", help="A file that the model should answer; repeat it."),
    ],
    content_type: Annotated[
        str | None,
        typer.Option(help="Of every input [default: guessed from its name]."),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            envvar="MAKEMAR_BATCH_SIZE", min=1, help="Largest batch [default: the archive's]."
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="How far a number may be off: relative, or absolute below 1 [default: 1e-4, more "
            "for a handler.dtype of half precision].",
        ),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Timed batches of each size.")] = 5,
    golden: Annotated[
        Path | None, typer.Option(help="Compare the answers with those stored in this folder.")
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Store the answers in --golden instead.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(envvar="MAKEMAR_CONFIG", help="The server's config.properties."),
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "--env", metavar="NAME[=VALUE]", help="A variable that the worker is to get; repeat it."
        ),
    ] = None,
    load_timeout: Annotated[
        float | None,
        typer.Option(min=1, help="Seconds for the model to load [default: the server's]."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            envvar="MAKEMAR_TIMEOUT",
            min=0.001,
            help="Seconds to wait for each answer [default: the server's].",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run an archive in a TorchServe worker and check its answers.

    Sends the inputs alone and in batches, with a corrupted copy among them, too: no answer may
    depend on its neighbours. Needs no Java. The archive's code is run. Exits 1 if a contract is
    broken.
    """
    from makemar.serving import CheckInput, Worker, check_archive

    if update and golden is None:
        raise WrongUsage("--update says nothing without --golden; name the folder there")
    given = [
        CheckInput(
            name=str(path), body=path.read_bytes(), content_type=content_type or _guess(path)
        )
        for path in inputs
    ]
    worker = Worker(
        archive,
        batch_size=batch_size,
        config=_read_config(config),
        environ=_parse_variables(variables or ()),
        load_timeout=load_timeout,
        response_timeout=timeout,
    )
    with waiting(f"checking {archive.name}"):
        report = check_archive(
            worker, given, tolerance=tolerance, repeats=repeat, golden=golden, update=update
        )
    if as_json:
        write_json(report.to_dict())
    else:
        _print(report)
    for breach in report.breaches:
        complain(breach)
    if not report.ok:
        raise typer.Exit(EXIT_FAILURE)


def _guess(path: Path) -> str:
    return mimetypes.guess_type(path.name)[0] or _UNKNOWN_TYPE


def _read_config(path: Path | None) -> ServerConfig | None:
    from makemar.configs import parse_server_config

    if path is None:
        return None
    # Java reads a properties file as ISO-8859-1, whatever the locale.
    text = path.read_text(encoding="latin-1")
    return parse_server_config(text, path=path, environ=os.environ)


def _parse_variables(words: Sequence[str]) -> dict[str, str]:
    """Read `NAME=VALUE`, and `NAME` for the value that it has here, which no list shows."""
    found = {}
    for word in words:
        name, given, value = word.partition("=")
        if not name or (not given and name not in os.environ):
            raise WrongUsage(f"--env {word}: there is no such variable; write NAME=VALUE")
        found[name] = value if given else os.environ[name]
    return found


def _print(report: CheckReport) -> None:
    write_line(f"{'model:':<16} {report.model} {report.version}, batch size "
               f"{report.batch_sizes[-1]}, tolerance {report.tolerance:g}")  # fmt: skip
    times = report.times
    steps = {
        "unpack": times.unpack_ms,
        "start (Python, TorchServe, torch)": times.start_ms,
        "load (imports and initialize)": times.load_ms,
        "  of it warm-up": times.warm_up_ms,
        "first answer": times.first_answer_ms,
        "all": times.total_ms,
    }
    told = [(name, f"{taken:.0f}") for name, taken in steps.items() if taken is not None]
    write_table(("cold start", "ms"), told)
    write_table(
        ("batch size", "T(B) ms", "ms each"),
        [(b, f"{taken:.2f}", f"{taken / b:.2f}") for b, taken in report.batch_ms.items()],
    )
    write_table(
        ("contract", "verdict"), [(c.value, _VERDICTS[held]) for c, held in report.verdicts.items()]
    )
    for path in report.golden:
        write_line(f"{'written:':<16} {path}")
    for note in report.notes:
        complain(note)
