"""Small archives and real servers: a server starts in about three seconds, so modules share one."""

from __future__ import annotations

import json
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from makemar.archiver import ArchiveSpec, plan_archive, write_archive
from makemar.serving import TorchServe

# Answers with the size of the batch, or does what the body asks for.
HANDLER = """
import json
import os

class Handler:
    def initialize(self, context):
        self.version = context.manifest["model"]["modelVersion"]

    def handle(self, data, context):
        return [self.answer(row["body"], index, len(data), context)
                for index, row in enumerate(data)]

    def answer(self, body, index, size, context):
        if body == b"refuse":
            context.set_response_status(422, "Unprocessable", index)
            return json.dumps({"code": 422, "type": "BadPicture", "message": "no picture",
                               "request_id": context.get_request_id(index)})
        if body == b"teapot":
            context.set_response_status(418, "Teapot", index)
            return "short and stout"
        if body == b"raise":
            raise ValueError("asked to")
        if body == b"die":
            os._exit(9)
        if body == b"headers":
            seen = context.get_request_header(index, "X-Sent")
            context.set_response_header(index, "X-Seen", seen)
        if isinstance(body, str):
            return "text " + body
        if isinstance(body, dict):
            return {"version": self.version, "got": body}
        return str(size)
"""


def eventually(condition: Callable[[], object], *, seconds: float = 20.0) -> None:
    """Wait until a condition holds; fail if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def wait_for() -> Callable[..., None]:
    return eventually


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Pack a handler with makemar's archiver."""

    def make(name: str = "counter", version: str = "1.0", source: str = HANDLER) -> Path:
        folder = tmp_path_factory.mktemp("packed")
        (folder / "handler.py").write_text(source)
        spec = ArchiveSpec(
            model_name=name, version=version, handler="handler.py", base=folder, vendor=False
        )
        return write_archive(plan_archive(spec), folder / f"{name}-{version}.mar")

    return make


@pytest.fixture(scope="session")
def zip_up(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Zip a handler as it is, also one that makemar would refuse to pack."""

    def make(
        name: str, source: str, *, config: str = "", version: str = "1.0", **files: str
    ) -> Path:
        path = tmp_path_factory.mktemp("zipped") / f"{name}.mar"
        model = {"modelName": name, "modelVersion": version, "handler": "handler.py"}
        if config:
            model["configFile"] = "config.yaml"
            files["config.yaml"] = config
        if "requirements" in files:
            model["requirementsFile"] = "requirements"
        with zipfile.ZipFile(path, "w") as archive:
            manifest = {"runtime": "python", "model": model}
            archive.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
            for member, text in {"handler.py": source, **files}.items():
                archive.writestr(member, text)
        return path

    return make


@pytest.fixture(scope="module")
def server(pack: Callable[..., Path]) -> Iterator[TorchServe]:
    """A server with one model, `counter` 1.0, in batches of up to eight."""
    archive = pack()
    with TorchServe(
        [archive],
        batch_size=8,
        max_batch_delay=300,
        stop_timeout=0,
        environ={"OMP_NUM_THREADS": "1"},
    ) as running:
        yield running


@pytest.fixture
def store(server: TorchServe) -> Iterator[Callable[[Path], str]]:
    """Put an archive into the server's model store, and clean up what came of it."""
    before = {entry.name for entry in server.management.models()}

    def put(archive: Path) -> str:
        shutil.copy(archive, server.work_dir / "model_store" / archive.name)
        return archive.name

    yield put
    for entry in server.management.models():
        if entry.name not in before:
            versions = server.management.describe(entry.name, "all")
            default = server.management.describe(entry.name)[0].version
            for item in sorted(versions, key=lambda item: item.version == default):
                server.management.unregister(entry.name, item.version)
