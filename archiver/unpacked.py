"""What becomes of members once TorchServe has unpacked them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from makemar.archiver.member import Member
from makemar.errors import Finding, Severity

__all__ = ["check_unpacked"]

_ARCHIVES = (".mar", ".model")


def check_unpacked(members: Iterable[Member]) -> Iterator[Finding]:
    """Yield a warning for each program, and for each archive within the archive.

    TorchServe 0.12: a `.mar` is unpacked with mode 0644 for every file.
    """
    for member in members:
        path = member.source
        if not isinstance(path, Path):
            continue
        if member.name.endswith(_ARCHIVES):
            yield _warn(
                "nested-archive",
                f"{member.name!r} is an archive itself, perhaps one packed before",
                "leave it out, or write archives to another folder (--export-path)",
                path,
            )
        elif os.access(path, os.X_OK) and _is_program(path):
            yield _warn(
                "executable-member",
                f"{member.name!r} is a program, and the server unpacks it without the right to run",
                "chmod it in initialize, or start it through its interpreter",
                path,
            )


def _is_program(path: Path) -> bool:
    """Tell programs from files that have an executable bit by accident, and from libraries."""
    if path.suffix == ".py" or ".so" in path.suffixes or not path.stat().st_mode & 0o111:
        return False
    with path.open("rb") as file:
        return file.read(4).startswith((b"\x7fELF", b"#!"))


def _warn(code: str, message: str, fix: str, path: Path) -> Finding:
    return Finding(code=code, severity=Severity.WARNING, message=message, fix=fix, path=path)
