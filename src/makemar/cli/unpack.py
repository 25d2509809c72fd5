"""`make-mar unpack`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from makemar.cli.output import write_line

__all__ = ["unpack"]


def unpack(
    archive: Annotated[Path, typer.Argument(help="A .mar, a .tar.gz or a model directory.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")],
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace a model directory that is there already.")
    ] = False,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The most that may come out "
            "[default: 1 GiB, or 100 times the archive if that is more].",
        ),
    ] = None,
) -> None:
    """Unpack an archive into a new folder, safely.

    It is what TorchServe would see. Names that lead out of it, links and damage are refused, and
    nothing is left then. Nothing is run.
    """
    from makemar.archiver import unpack_archive

    write_line(unpack_archive(archive, folder, force=force, max_bytes=max_bytes))
