"""makemar's own handlers, which travel in every archive so that a server need not have them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from makemar.archiver.member import Member
from makemar.errors import ArchiveError

__all__ = ["list_vendored"]


def list_vendored() -> tuple[Member, ...]:
    """Return `makemar/__init__.py`, `makemar/py.typed` and the sources under `makemar/handlers/`.

    The packages are located without being imported, so torch need not be installed. Raises
    ArchiveError if makemar's handlers are not installed as files.
    """
    top = _find_folder("makemar")
    handlers = _find_folder("makemar.handlers")
    files = {f"makemar/{name}": top / name for name in ("__init__.py", "py.typed")}
    for path in sorted(handlers.rglob("*.py")):
        inside = path.relative_to(handlers)
        if not any(part.startswith((".", "__pycache__")) for part in inside.parts):
            files[f"makemar/handlers/{inside.as_posix()}"] = path
    return tuple(
        Member(name=name, source=path, size=path.stat().st_size, origin="vendored")
        for name, path in files.items()
        if path.is_file()
    )


def _find_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise ArchiveError(
            f"{package} is not installed as files, so it cannot be vendored; "
            "reinstall makemar, or pack with vendor=False (--no-vendor)"
        )
    return Path(spec.origin).parent
