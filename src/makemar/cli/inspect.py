"""`make-mar inspect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from makemar.cli.failure import complain, report_findings
from makemar.cli.output import format_size, write_json, write_line

if TYPE_CHECKING:
    from makemar.archiver import Archive

__all__ = ["inspect_archive"]


def inspect_archive(
    archive: Annotated[Path, typer.Argument(help="A .mar, a .tar.gz or a model directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what an archive says of itself and holds.

    Nothing of it is run.
    """
    from makemar.archiver import read_archive

    found = read_archive(archive)
    report_findings(found.findings)
    if found.findings:
        complain("`make-mar verify` tells all that is wrong with it")
    if as_json:
        write_json(found.to_dict())
    else:
        _print(found)


def _print(archive: Archive) -> None:
    manifest = archive.manifest
    facts = {
        "name": manifest.model_name,
        # TorchServe 0.12 takes an archive without a version for this one.
        "version": manifest.model_version or "1.0 (none given)",
        "handler": manifest.handler,
        "runtime": manifest.runtime,
        "description": manifest.description,
        "model file": manifest.model_file,
        "serialized file": manifest.serialized_file,
        "requirements": manifest.requirements_file,
        "config": _describe_config(archive),
        "created": manifest.created_on,
        "format": archive.archive_format.name.lower(),
        "RECORD": archive.record.value,
        "members": f"{len(archive.members)}, {format_size(archive.size)} unpacked",
    }
    for name, value in facts.items():
        if value:
            write_line(f"{name + ':':<16} {value}")
    for member in archive.members:
        write_line(f"{member.size:>14,}  {member.name}")


def _describe_config(archive: Archive) -> str:
    name = archive.manifest.config_file
    if not name:
        return ""
    if archive.config is None:
        return f"{name} (cannot be used)"
    settings = ", ".join(f"{key}={json.dumps(value)}" for key, value in archive.config.items())
    return f"{name}: {settings}"
