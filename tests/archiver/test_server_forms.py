"""An unmodified TorchServe reads every form in which an archive can be written."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from makemar.archiver import ArchiveFormat, ArchiveSpec, plan_archive, write_archive

pytestmark = pytest.mark.server

HANDLER = """
import os


def handle(data, context):
    if data is None:
        return None
    size = os.path.getsize("weights.bin")
    return [str(size) for _ in data]
"""
# Larger than what TorchServe's reader buffers, and than what is worth a link.
WEIGHTS = bytes(range(256)) * 50_000
# Writing and reading more than 4 GiB takes a minute: only where somebody asks for it.
HUGE = (4 << 30) + 123 if os.environ.get("MAKEMAR_TEST_HUGE") else 0
# Stored ones are loaded in test_server.py.
FORMS: Mapping[str, Mapping[str, bool]] = {
    "deflated": {"compress": True},
    "long-deflated": {"compress": True},
    "linked": {"link": True},
    **({"huge": {}} if HUGE else {}),
}


def pack(folder: Path, name: str, **options: bool) -> Path:
    spec = ArchiveSpec(
        model_name=name,
        version="1.0",
        handler="handler.py",
        serialized_file=Path("weights.bin"),
        base=folder,
    )
    kind = ArchiveFormat.DIRECTORY if options.get("link") else ArchiveFormat.MAR
    target = folder / "store" / f"{name}{kind.suffix}"
    return write_archive(plan_archive(spec), target, archive_format=kind, **options)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    """One server with an archive of each form, one as if it were beyond a zip's limits."""
    from makemar.serving import TorchServe

    folder = tmp_path_factory.mktemp("forms")
    (folder / "store").mkdir()
    (folder / "handler.py").write_text(HANDLER)
    weights = folder / "weights.bin"
    weights.write_bytes(WEIGHTS)
    archives = [pack(folder, name, **FORMS[name]) for name in ("deflated", "linked")]
    with pytest.MonkeyPatch.context() as patch:
        # Both limits are lowered rather than 4 GiB and 65,536 members written.
        patch.setattr(zipfile, "ZIP64_LIMIT", 1_000_000)
        patch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
        archives.append(pack(folder, "long-deflated", **FORMS["long-deflated"]))
    assert b"PK\x06\x06" in archives[-1].read_bytes(), "the end record of a zip64"
    if HUGE:
        weights.unlink()  # of the linked archive it is the file itself
        with weights.open("wb") as file:
            file.truncate(HUGE)
        archives.append(pack(folder, "huge"))
    with TorchServe(archives, start_timeout=300) as running:
        yield running


@pytest.mark.parametrize("name", FORMS)
def test_torchserve_reads_every_form(server, name):
    reply = server.inference.predict(name, b"ping")
    size = HUGE if name == "huge" else len(WEIGHTS)
    assert (reply.status, reply.body) == (200, str(size).encode())
