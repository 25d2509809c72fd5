"""Deflated members: smaller, the same contents, still readable as a stream."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from makemar.archiver import ArchiveFormat, check_record, plan_archive, write_and_hash
from makemar.errors import ArchiveError

FILES = {"weights.pth": bytes(range(256)) * 9000}
SPEC = {"serialized_file": Path("weights.pth")}


def test_a_deflated_archive_is_smaller_and_holds_the_same(project, store):
    plan = plan_archive(project(FILES, **SPEC))
    stored = write_and_hash(plan, store / "stored.mar")
    deflated = write_and_hash(plan, store / "deflated.mar", compress=True)
    assert deflated.size == deflated.path.stat().st_size < stored.size // 4
    assert deflated.record_sha256 == stored.record_sha256
    assert check_record(deflated.path) == ()
    with zipfile.ZipFile(deflated.path) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_DEFLATED}


def test_the_header_of_a_deflated_member_is_complete(project, store):
    plan = plan_archive(project(FILES, **SPEC))
    data = write_and_hash(plan, store / "m.mar", compress=True).path.read_bytes()
    at, names = 0, []
    while data[at : at + 4] == b"PK\x03\x04":
        header = struct.unpack("<HHHHHIIIHH", data[at + 4 : at + 30])
        _, flags, method, _, _, crc, packed, size, name_length, extra_length = header
        assert (flags, method) == (0, zipfile.ZIP_DEFLATED)
        start = at + 30 + name_length + extra_length
        names.append(data[at + 30 : at + 30 + name_length].decode())
        contents = zlib.decompress(data[start : start + packed], wbits=-15)
        assert (len(contents), zlib.crc32(contents)) == (size, crc)
        at = start + packed
    assert names == [*(member.name for member in plan.members), "MAR-INF/RECORD"]


def test_deflating_twice_gives_the_same_bytes(project, store):
    plan = plan_archive(project(FILES, **SPEC))
    first, second = (
        write_and_hash(plan, store / f"{name}.mar", compress=True).path for name in "ab"
    )
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("kind", [ArchiveFormat.TGZ, ArchiveFormat.DIRECTORY])
def test_only_a_mar_can_be_deflated(project, store, kind):
    plan = plan_archive(project())
    with pytest.raises(ArchiveError, match=r"compress \(--compress\) deflates .*leave it out"):
        write_and_hash(plan, store / f"m{kind.suffix}", archive_format=kind, compress=True)
    assert list(store.iterdir()) == []
