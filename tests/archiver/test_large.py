"""Archives beyond the limits of a short zip: 4 GiB in a member, 65,535 members."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from makemar.archiver import (
    ArchiveSpec,
    Member,
    plan_archive,
    read_archive,
    write_archive,
)
from makemar.archiver.zipped import write_zip

SIZE = (4 << 30) + 123
ZEROS = bytes(1 << 20)
TIME = datetime(1980, 1, 1, tzinfo=timezone.utc)


class Holes(io.RawIOBase):
    """A disk that keeps what is not zero: a sparse file of any size, in memory."""

    def __init__(self) -> None:
        self.kept: dict[int, bytes] = {}
        self.at = self.end = 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def write(self, data) -> int:
        size = len(data)
        if data != ZEROS[:size]:
            self.kept[self.at] = bytes(data)
        self.at += size
        self.end = max(self.end, self.at)
        return size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.end}[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer) -> int:
        count = max(0, min(len(buffer), self.end - self.at))
        found = bytearray(count)
        for start, data in self.kept.items():
            first, last = max(start, self.at), min(start + len(data), self.at + count)
            if first < last:
                found[first - self.at : last - self.at] = data[first - start : last - start]
        buffer[:count] = found
        self.at += count
        return count


class NoHash:
    """Hashing 4 GiB is most of the time, and not what is shown here."""

    def update(self, data: bytes) -> None: ...

    def digest(self) -> bytes:
        return bytes(32)


def test_a_member_over_4_gib_has_its_sizes_in_front_of_it_and_the_next_one_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashlib, "sha256", NoHash)
    weights = tmp_path / "weights.pth"
    with weights.open("wb") as file:
        file.truncate(SIZE)
    disk = Holes()
    with write_zip(disk, time=TIME) as add:  # type: ignore[arg-type]
        line = add(Member.of_file("weights.pth", weights, origin="a test"))
        add(Member(name="z.txt", source=b"behind", size=6, origin="a test"))
    assert line.size == SIZE
    # As a stream, which is how TorchServe reads it.
    disk.seek(0)
    header = disk.read(30)
    name_length, extra_length = struct.unpack("<HH", header[26:30])
    assert header[:4] == b"PK\x03\x04"
    assert struct.unpack("<H", header[6:8]) == (0,), "no descriptor follows the data"
    assert struct.unpack("<II", header[18:26]) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert disk.read(name_length) == b"weights.pth"
    assert struct.unpack("<HHQQ", disk.read(extra_length)) == (1, 16, SIZE, SIZE)
    disk.seek(SIZE, io.SEEK_CUR)
    assert disk.read(4) == b"PK\x03\x04"
    disk.seek(26 + 5, io.SEEK_CUR)
    assert disk.read(6) == b"behind"
    # And by its central directory, as Python reads it.
    with zipfile.ZipFile(disk) as archive:  # type: ignore[arg-type]
        assert [info.file_size for info in archive.infolist()] == [SIZE, 6]
        assert archive.read("z.txt") == b"behind"


def test_more_members_than_a_short_zip_can_count(store: Path) -> None:
    (store / "network.py").write_text("class Network:\n    pass\n")
    spec = ArchiveSpec(
        model_name="m",
        version="1",
        handler="base_handler",
        model_file=Path("network.py"),
        base=store,
    )
    plan = plan_archive(spec)
    many = tuple(
        Member(name=f"z/{number}", source=b"", size=0, origin="a test") for number in range(66_000)
    )
    plan = replace(plan, members=plan.members + many)
    target = write_archive(plan, store / "m.mar")
    assert len(read_archive(target).members) == len(plan.members) + 1
