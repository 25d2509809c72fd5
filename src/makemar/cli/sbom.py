"""`make-mar sbom`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from makemar.cli.output import write_json, write_line

__all__ = ["sbom"]


def sbom(
    archive: Annotated[Path, typer.Argument(help="A .mar, a .tar.gz or a model directory.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write [default: stdout].")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace a file that is there already.")
    ] = False,
) -> None:
    """Print an archive's bill of materials (CycloneDX).

    That is JSON of CycloneDX 1.6: the model, every file with its SHA-256, the Python packages
    that the requirements file names, and makemar's own handlers. The same archive gives the same
    bytes. Nothing is run.
    """
    from makemar.archiver import make_sbom, write_text

    data = make_sbom(archive)
    if output is None:
        write_json(data)
    else:
        write_text(output, json.dumps(data, indent=2) + "\n", force=force)
        write_line(output)
