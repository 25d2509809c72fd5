"""An unmodified TorchServe loads what was packed, in every format, and answers from it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from makemar.archiver import ArchiveFormat, ArchiveSpec, Include, plan_archive, write_archive

pytestmark = pytest.mark.server

HANDLER = """
import os
import makemar
from lib.words import REPLY
import space.deep


def handle(data, context):
    if data is None:
        return None
    with open(os.path.join("static", "größe.txt"), encoding="utf-8") as file:
        size = file.read()
    inside = os.path.realpath(makemar.__file__).startswith(os.path.realpath(os.getcwd()))
    return [f"{REPLY} {size} {inside}" for _ in data]
"""


FILES = {
    "handler.py": HANDLER,
    "lib/__init__.py": "",
    "lib/words.py": "from .more import REPLY\n",
    "lib/more.py": "REPLY = 'pong'\n",
    "lib/service.py": """
from .words import REPLY


class Helper:
    def __init__(self, word): self.word = word


class Service:
    def initialize(self, context): self.helper = Helper(REPLY)

    def handle(self, data, context):
        return [f"{self.helper.word} from a class" for _ in data]
""",
    "space/deep.py": "",
    "net.py": """
import torch


class Net(torch.nn.Linear):
    def __init__(self): super().__init__(2, 2, bias=False)
""",
    "static/größe.txt": "12",
    "model-config.yaml": "minWorkers: 1\nmaxWorkers: 1\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    # Larger than what TorchServe's reader buffers.
    (folder / "weights.bin").write_bytes(bytes(range(256)) * 50_000)
    return folder


@pytest.fixture(scope="module")
def server(project: Path, tmp_path_factory: pytest.TempPathFactory):
    """One server with an archive of each format, and one with a zip's long headers."""
    from makemar.serving import TorchServe

    store = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        archives = [pack(project, store, kind.name.lower(), kind) for kind in ArchiveFormat]
        # As for a member over 4 GiB, without writing one.
        patch.setattr(zipfile, "ZIP64_LIMIT", 1_000_000)
        archives.append(pack(project, store, "long", ArchiveFormat.MAR))
    archives.append(pack(project, store, "named", ArchiveFormat.MAR, "lib.service:Service"))
    archives.append(pack_family(project, store))
    with TorchServe(archives) as running:
        yield running


def pack_family(project: Path, store: Path) -> Path:
    """Pack a network under a handler of makemar, and nothing of one's own but the weights."""
    import torch

    torch.save({"weight": torch.full((2, 2), 2.0)}, project / "doubled.pt")
    spec = ArchiveSpec(
        model_name="family",
        version="1.0",
        handler="tensor_handler",
        serialized_file=Path("doubled.pt"),
        model_file=Path("net.py"),
        base=project,
    )
    return write_archive(plan_archive(spec), store / "family.mar")


def pack(
    project: Path, store: Path, name: str, kind: ArchiveFormat, handler: str = "handler.py"
) -> Path:
    spec = ArchiveSpec(
        model_name=name,
        version="1.0",
        handler=handler,
        serialized_file=Path("weights.bin"),
        config_file=Path("model-config.yaml"),
        include=(Include(source=Path("static")),),
        base=project,
    )
    return write_archive(plan_archive(spec), store / f"{name}{kind.suffix}", archive_format=kind)


@pytest.mark.parametrize("name", [*(kind.name.lower() for kind in ArchiveFormat), "long"])
def test_torchserve_answers_from_the_archive(server, name):
    reply = server.inference.predict(name, b"ping")
    assert (reply.status, reply.body) == (200, b"pong 12 True")


def test_torchserve_answers_from_a_class_that_its_loader_alone_cannot_take(server):
    reply = server.inference.predict("named", b"ping")
    assert (reply.status, reply.body) == (200, b"pong from a class")


def test_torchserve_answers_from_a_family_of_makemar_by_its_name(server):
    reply = server.inference.predict("family", b"[1.0, 2.0]")
    assert (reply.status, json.loads(reply.body)) == (200, [6.0, 6.0])
