"""Small projects to pack: real files, nothing that needs torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from makemar.archiver import ArchiveSpec

HANDLER = """
def handle(data, context):
    if data is None:
        return None
    return ["pong"] * len(data)
"""


def write_files(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, contents in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., ArchiveSpec]:
    """Write a project's files and return its spec; the handler is there without being asked for."""

    def make(files: dict[str, str | bytes] | None = None, **spec: object) -> ArchiveSpec:
        folder = tmp_path / "project"
        write_files(folder, {"handler.py": HANDLER, **(files or {})})
        values = {"model_name": "pong", "version": "1.0", "handler": "handler.py", "base": folder}
        return ArchiveSpec(**{**values, **spec})

    return make


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """An empty folder for archives."""
    folder = tmp_path / "store"
    folder.mkdir()
    return folder
