"""What is to be packed: the specification behind `mar.toml` and the flags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from makemar.archiver.silence import Silence
from makemar.archiver.target import DEFAULT_TARGET
from makemar.errors import ArchiveError

__all__ = ["ArchiveSpec", "Include", "parse_include", "split_extra_files"]


@dataclass(frozen=True, kw_only=True)
class Include:
    """A file or a directory that keeps its tree inside the archive.

    `destination` is the name it gets there, with `/` between folders: the source's own name if it
    is None, the root of the archive if it is `.`; a trailing `/` means "into that folder".
    """

    source: Path
    destination: str | None = None


@dataclass(frozen=True, kw_only=True)
class ArchiveSpec:
    """Everything that decides an archive's bytes, apart from the contents of the files it names.

    `handler` is a file (`handler.py`, `handler`), with a function or a class (`handler.py:serve`,
    `handler.py:Service`), a module (`package.module`, `package.module:Service`), one of
    TorchServe's built-in names (`image_classifier`) or a family of makemar
    (`makemar.image_classifier`; without `makemar.` where TorchServe has none of that name).
    `extra_files` are raw entries: a file or glob lands at the root, of a directory the *contents*
    land there. `include` keeps trees.
    `vendor` puts makemar's own handlers into the archive, so that the server need not have them.
    `target_python` is the Python of the server, such as 3.9, `target_envelope` its
    `service_envelope`, empty if it has none. `silence` names warnings that are accepted, `strict`
    makes errors of the others. Relative paths start from `base`. Nothing is checked here:
    `plan_archive` tells all that is wrong at once.
    """

    model_name: str
    version: str
    handler: str
    model_file: Path | None = None
    serialized_file: Path | None = None
    extra_files: tuple[str, ...] = ()
    include: tuple[Include, ...] = ()
    requirements_file: Path | None = None
    config_file: Path | None = None
    runtime: str = "python"
    description: str = ""
    vendor: bool = True
    target_python: str = DEFAULT_TARGET
    target_envelope: str = ""
    silence: tuple[Silence, ...] = ()
    strict: bool = False
    base: Path = Path()


def parse_include(text: str) -> Include:
    """Read one `PATH[=DEST]`; the last `=` separates, so write `PATH=DEST` for a path that has one.

    Raises ArchiveError if a side is empty.
    """
    path, separator, destination = text.rpartition("=")
    if not separator:
        path, destination = destination, ""
    if not path or (separator and not destination):
        raise ArchiveError(f"include {text!r}: a side is empty; write PATH or PATH=DEST")
    return Include(source=Path(path), destination=destination or None)


def split_extra_files(text: str) -> tuple[str, ...]:
    """Split the comma list of `--extra-files`; spaces around an entry are not part of it."""
    return tuple(entry for part in text.split(",") if (entry := part.strip()))
