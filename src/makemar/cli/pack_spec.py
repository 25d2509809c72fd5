"""The specification behind `make-mar pack`: a file, flags, or both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from makemar.cli.failure import WrongUsage

if TYPE_CHECKING:
    from makemar.archiver import ArchiveSpec

__all__ = ["choose_spec"]

_DEFAULT_SPEC = Path("mar.toml")


def choose_spec(path: Path | None, flags: dict[str, object]) -> ArchiveSpec:
    """Make the specification out of a file, of flags, or of both; a flag that is None is not given.

    Raises WrongUsage if there is neither, or too little.
    """
    from makemar.archiver import ArchiveSpec, read_spec

    changes = {key: value for key, value in flags.items() if value is not None}

    if path is None and not changes:
        if not _DEFAULT_SPEC.exists():
            raise WrongUsage(
                "there is no ./mar.toml; name one, or give --model-name, --version and --handler"
            )
        path = _DEFAULT_SPEC
    if path is not None:
        base = read_spec(path / _DEFAULT_SPEC if path.is_dir() else path)
        return replace(base, **_from_here(changes, base.base))  # type: ignore[arg-type]
    required = ("model_name", "version", "handler")
    missing = [f"--{key.replace('_', '-')}" for key in required if key not in changes]
    if missing:
        raise WrongUsage(f"give {' and '.join(missing)}, or name a mar.toml")
    return ArchiveSpec(**changes)  # type: ignore[arg-type]


def _from_here(changes: dict[str, object], base: Path) -> dict[str, object]:
    """Let the paths in flags start from the current folder, as typed, not from the SPEC's."""
    from makemar.archiver import Include

    if base.resolve() == Path.cwd():
        return changes
    here = dict(changes)
    for key, value in changes.items():
        if isinstance(value, Path):
            here[key] = value.absolute()
        elif key == "include" and isinstance(value, tuple):
            here[key] = tuple(
                Include(
                    source=item.source.absolute(), destination=item.destination or item.source.name
                )
                for item in value
            )
        elif key == "extra_files" and isinstance(value, tuple):
            here[key] = tuple(str(Path(item).absolute()) for item in value)
        elif key == "handler" and _is_file(str(value)):
            here[key] = str(Path(str(value)).absolute())
    return here


def _is_file(handler: str) -> bool:
    """Tell a handler's file, with or without .py and function, from a built-in one's name."""
    file = handler.partition(":")[0]
    return Path(file).is_file() or Path(f"{file}.py").is_file()
