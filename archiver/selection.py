"""The files that a spec names, each with the member it becomes."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Iterator
from pathlib import Path

from makemar.archiver.handler import BUILT_IN_HANDLERS, FAMILIES, Handler
from makemar.archiver.member import Member
from makemar.archiver.spec import ArchiveSpec, Include
from makemar.archiver.tree import walk_tree
from makemar.errors import Finding, Severity

__all__ = ["select_members"]

_GLOB_SIGNS = frozenset("*?[")


def select_members(spec: ArchiveSpec, handler: Handler | None) -> Iterator[Member | Finding]:
    """Yield a member for each file that the spec names, and a finding for each it cannot have.

    `handler` is the spec's, resolved; None if it could not be. Files are looked at, not opened.
    Raises OSError if a folder cannot be listed.
    """
    if handler is not None and handler.file is not None:
        yield _member(handler.file.name, spec.base / handler.file, "handler (--handler)")
    for origin, path in (
        ("model_file (--model-file)", spec.model_file),
        ("serialized_file (--serialized-file)", spec.serialized_file),
        ("requirements (--requirements-file)", spec.requirements_file),
        ("config (--config-file)", spec.config_file),
    ):
        if path is not None:
            yield _member(path.name, spec.base / path, origin)
    for entry in spec.extra_files:
        yield from _select_extra(spec.base, entry)
    for include in spec.include:
        yield from _select_include(spec.base, include)


def _select_extra(base: Path, entry: str) -> Iterator[Member | Finding]:
    """Do as torch-model-archiver does: everything to the root, of a directory its contents."""
    origin = f"extra {entry!r} (--extra-files)"
    if os.path.lexists(base / entry) or not _GLOB_SIGNS & set(entry):
        yield from _select_flat(base / entry, origin)
        return
    # Not Path.glob: there `**` is recursive, and old scripts would pack more than before.
    matches = sorted(glob.glob(entry, root_dir=base))  # noqa: PTH207
    if not matches:
        yield Finding(
            code="empty-glob",
            severity=Severity.WARNING,
            message=f"{origin} matches no file",
            fix="correct the pattern or leave it out",
        )
    for match in matches:
        if Path(match).name != "__pycache__":
            yield from _select_flat(base / match, origin)


def _select_flat(path: Path, origin: str) -> Iterator[Member | Finding]:
    if not path.is_dir():
        yield _member(path.name, path, origin)
        return
    if (path / "__init__.py").is_file():
        yield Finding(
            code="flattened-package",
            severity=Severity.WARNING,
            message=f"{origin} puts the contents of a package at the archive's root, "
            "where it is no package any more",
            fix=f"keep the package with include (--include {path.name})",
            path=path,
        )
    yield from _select_tree(path, "", origin)


def _select_include(base: Path, include: Include) -> Iterator[Member | Finding]:
    origin = f"include {str(include.source)!r} (--include)"
    path = base / include.source
    wanted = include.destination or ""
    # "." and ".." have no name of their own; that of the folder they mean is as good.
    name = path.name if path.name not in ("", "..") else path.resolve().name
    if path.is_dir():
        target = wanted.rstrip("/") if wanted else name
        yield from _select_tree(path, "" if target == "." else target + "/", origin)
    elif wanted == "." or wanted.endswith("/"):
        yield _member(name if wanted == "." else wanted + name, path, origin)
    else:
        yield _member(wanted or name, path, origin)


def _select_tree(folder: Path, prefix: str, origin: str) -> Iterator[Member | Finding]:
    for found in walk_tree(folder):
        if isinstance(found, Finding):
            yield found
        else:
            yield _member(prefix + found[0], found[1], origin)


def _member(name: str, path: Path, origin: str) -> Member | Finding:
    if path.is_file():
        return Member.of_file(name, path, origin=origin)
    there = os.path.lexists(path)
    return Finding(
        code="not-a-file" if there else "missing-file",
        severity=Severity.ERROR,
        message=f"{origin} must name a file"
        if there
        else f"{origin} names a file that is not there",
        fix=_suggest(path) or "correct the path",
        path=path,
    )


def _suggest(path: Path) -> str:
    """Guess what a missing file was to be: a neighbour of like name, or a built-in handler."""
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    # Code is never what was meant by weights, nor weights by code.
    neighbours = [p.name for p in beside if (p.suffix == ".py") == (path.suffix == ".py")]
    close = difflib.get_close_matches(path.name, neighbours, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return _suggest_ready(path.stem) if path.suffix == ".py" else ""


def _suggest_ready(name: str) -> str:
    """Guess which handler that needs no file was meant."""
    known = (*BUILT_IN_HANDLERS, *FAMILIES)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    if not close:
        return ""
    if close[0] not in BUILT_IN_HANDLERS:
        return f"did you mean makemar's {close[0]!r}?"
    also = f", or makemar's 'makemar.{close[0]}'" if close[0] in FAMILIES else ""
    return f"did you mean TorchServe's {close[0]!r}{also}?"
