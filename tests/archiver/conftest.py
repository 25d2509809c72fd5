"""Small projects to pack: real files, nothing that needs torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


# Loads each model directory in a child of its own, as a worker does: in that directory, with it
# first on the path. TorchServe is imported once for all of them.
LOADER = """
import json, os, sys
from ts.context import Context
from ts.model_loader import TsModelLoader


def load(folder):
    sys.path.insert(0, folder)
    os.chdir(folder)
    with open("MAR-INF/MANIFEST.json") as file:
        handler = json.load(file)["model"]["handler"]
    try:
        service = TsModelLoader().load("m", folder, handler, None, 1)
        return service._entry_point([{"body": b"x"}], service.context)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


results = []
for folder in json.load(sys.stdin):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, json.dumps(load(folder), default=str).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        results.append(json.loads(pipe.read()))
    os.wait()
print("RESULTS" + json.dumps(results))
"""


@pytest.fixture(scope="session")
def ask_torchserve() -> Callable[[list[Path]], list[object]]:
    """Let TorchServe's own loader load model directories, and answer one request from each.

    What it returns are the replies, or the errors as texts.
    """

    def ask(folders: list[Path]) -> list[object]:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", LOADER],
            input=json.dumps([str(folder) for folder in folders]),
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        results: list[object] = json.loads(done.stdout.rpartition("RESULTS")[2])
        return results

    return ask
