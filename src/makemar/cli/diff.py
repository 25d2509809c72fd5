"""`make-mar diff`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from makemar.cli.failure import EXIT_FAILURE, complain
from makemar.cli.output import write_json, write_table

if TYPE_CHECKING:
    from makemar.archiver import ArchiveDiff

__all__ = ["diff"]


def diff(
    before: Annotated[Path, typer.Argument(help="A .mar, a .tar.gz or a model directory.")],
    after: Annotated[Path, typer.Argument(help="What it is compared with.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two archives, their weights by tensor.

    And members, manifest and configuration. Exits with 1 if they differ. Nothing is run; weights
    are compared by tensor where torch is installed.
    """
    from makemar.archiver import diff_archives

    found = diff_archives(before, after)
    if as_json:
        write_json(found.to_dict())
    else:
        for weights in found.weights:
            if weights.reason:
                complain(f"{weights.name}: {weights.reason}")
        if found.differs:
            write_table(("what", "name", "change", "before", "after"), _rows(found))
    if found.differs:
        raise typer.Exit(EXIT_FAILURE)


def _rows(found: ArchiveDiff) -> Iterator[tuple[object, ...]]:
    for member in found.members:
        sides = [
            "" if line is None else f"{line.size:,} bytes {line.digest[:12]}"
            for line in (member.before, member.after)
        ]
        yield "member", member.name, _how(*sides), *sides
    for what, keys in (("manifest", found.manifest), ("config", found.config)):
        for key in keys:
            sides = [key.before or "", key.after or ""]
            yield what, key.key, _how(*sides), *sides
    for weights in found.weights:
        for tensor in weights.tensors:
            how = tensor.how if tensor.largest is None else f"by {tensor.largest:.3g}"
            yield "tensor", f"{weights.name}: {tensor.name}", how, tensor.before, tensor.after


def _how(before: str, after: str) -> str:
    if not before:
        return "added"
    return "changed" if after else "removed"
