"""The other two formats of old scripts: a gzipped tar, and a plain directory."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from makemar.archiver import (
    ArchiveFormat,
    Include,
    check_record,
    plan_archive,
    read_archive,
    write_and_hash,
    write_archive,
)
from makemar.errors import ArchiveError, ArchiveExistsError

TGZ, DIRECTORY = ArchiveFormat.TGZ, ArchiveFormat.DIRECTORY
FILES = {"weights.pth": bytes(range(256)) * 9000, "static/größe.txt": "12"}
SPEC = {"serialized_file": Path("weights.pth"), "include": (Include(source=Path("static")),)}


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def read_record(path: Path) -> bytes:
    if path.is_dir():
        return (path / "MAR-INF" / "RECORD").read_bytes()
    if path.suffix == ".mar":
        with zipfile.ZipFile(path) as archive:
            return archive.read("MAR-INF/RECORD")
    with tarfile.open(path) as archive:
        return archive.extractfile("pong/MAR-INF/RECORD").read()


def test_the_names_are_those_of_the_old_flag():
    assert ArchiveFormat("default") is ArchiveFormat("zip-store") is ArchiveFormat.MAR
    assert ArchiveFormat("tgz") is TGZ
    assert ArchiveFormat("no-archive") is DIRECTORY
    assert [kind.suffix for kind in ArchiveFormat] == [".mar", ".tar.gz", ""]
    with pytest.raises(ValueError, match="rar"):
        ArchiveFormat("rar")


def test_all_formats_hold_the_same(project, store):
    plan = plan_archive(project(FILES, **SPEC))
    found = []
    for kind in ArchiveFormat:
        target = write_archive(plan, store / f"pong{kind.suffix}", archive_format=kind)
        archive = read_archive(target)
        assert archive.archive_format is kind
        assert check_record(target) == ()
        found.append((archive.manifest, {m.name: m.size for m in archive.members}, archive.record))
    assert found[0] == found[1] == found[2]
    assert listing(store) == ["pong", "pong.mar", "pong.tar.gz"]


@pytest.mark.parametrize("kind", list(ArchiveFormat))
def test_the_digest_is_that_of_what_was_published(project, store, kind):
    plan = plan_archive(project(FILES, **SPEC))
    written = write_and_hash(plan, store / f"pong{kind.suffix}", archive_format=kind)
    again = write_archive(plan, store / f"again{kind.suffix}", archive_format=kind)
    found = contents(store / "pong") if kind is DIRECTORY else {"": written.path.read_bytes()}
    assert written.path == store / f"pong{kind.suffix}"
    assert written.size == sum(map(len, found.values()))
    record = read_record(written.path)
    assert written.record_sha256 == hashlib.sha256(record).hexdigest()
    assert found == (contents(again) if kind is DIRECTORY else {"": again.read_bytes()})


@pytest.mark.parametrize("kind", [ArchiveFormat.MAR, TGZ])
def test_what_cannot_be_brought_to_the_disk_replaces_nothing(project, store, monkeypatch, kind):
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    target = store / f"m{kind.suffix}"
    target.write_text("old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ArchiveError, match="cannot be written: Input/output error"):
        write_archive(plan_archive(project()), target, archive_format=kind, force=True)
    assert target.read_text() == "old"
    assert listing(store) == [target.name]


@pytest.mark.parametrize("kind", list(ArchiveFormat))
@pytest.mark.parametrize(
    ("epoch", "created"),
    [
        ("-1", "01/01/1980 00:00:00"),
        ("0", "01/01/1980 00:00:00"),
        (str(2**32 - 1), "07/02/2106 06:28:15"),
        (str(2**32), "07/02/2106 06:28:15"),
        ("4354819198", "07/02/2106 06:28:15"),
        ("9" * 30, "07/02/2106 06:28:15"),
    ],
)
def test_every_format_takes_every_time(project, store, monkeypatch, kind, epoch, created):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    plan = plan_archive(project())
    target = write_archive(plan, store / f"pong{kind.suffix}", archive_format=kind)
    assert read_archive(target).manifest.created_on == created


def test_a_tarball_has_one_folder_and_no_time_but_the_fixed_one(project, store, monkeypatch):
    plan = plan_archive(project(FILES, **SPEC))
    first = write_archive(plan, store / "a.tar.gz", archive_format=TGZ).read_bytes()
    monkeypatch.setattr(time, "time", lambda: 2e9)
    second = write_archive(plan, store / "b.tgz", archive_format=TGZ).read_bytes()
    assert first == second
    assert b"a.tar" not in first[:64], "gzip could write the file's name"
    with tarfile.open(store / "a.tar.gz") as archive:
        entries = archive.getmembers()
    assert {entry.name.partition("/")[0] for entry in entries} == {"pong"}
    assert {(e.mtime, e.mode, e.uid, e.uname, e.isreg()) for e in entries} == {
        (315532800, 0o644, 0, "", True)
    }
    assert gzip.decompress(first)


def test_a_directory_is_plain_files(project, store):
    plan = plan_archive(project(FILES, **SPEC))
    target = write_archive(plan, store / "pong", archive_format=DIRECTORY)
    found = contents(target)
    assert set(found) == {*(member.name for member in plan.members), "MAR-INF/RECORD"}
    assert found["weights.pth"] == FILES["weights.pth"]
    assert {path.stat().st_mtime for path in target.rglob("*") if path.is_file()} == {315532800}


@pytest.mark.parametrize("kind", [TGZ, DIRECTORY])
def test_what_exists_is_kept_unless_forced(project, store, kind):
    target = store / f"pong{kind.suffix}"
    write_archive(
        plan_archive(project({"old.txt": ""}, extra_files=("old.txt",))),
        target,
        archive_format=kind,
    )
    plan = plan_archive(project())
    with pytest.raises(ArchiveExistsError):
        write_archive(plan, target, archive_format=kind)
    assert "old.txt" in [member.name for member in read_archive(target).members]
    write_archive(plan, target, archive_format=kind, force=True)
    # No stale file stays in a directory either.
    assert "old.txt" not in [member.name for member in read_archive(target).members]
    assert listing(store) == [target.name]


@pytest.mark.parametrize("kind", [TGZ, DIRECTORY])
@pytest.mark.parametrize("force", [False, True])
def test_an_interrupted_write_leaves_what_was_there(project, store, kind, force):
    plan = plan_archive(project(FILES, **SPEC))
    target = store / f"pong{kind.suffix}"
    if force:
        write_archive(plan, target, archive_format=kind)
    before = contents(store)
    hidden: set[str] = set()
    calls: list[int] = []

    def progress(count: int) -> None:
        hidden.update(listing(store))
        calls.append(count)
        if len(calls) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_archive(plan, target, archive_format=kind, force=force, progress=progress)
    assert contents(store) == before
    assert all(name.startswith(".") for name in hidden - {target.name})
    assert kind is TGZ or hidden - {target.name}


def test_force_never_replaces_a_directory_that_is_no_model(project, store):
    (store / "src").mkdir()
    (store / "src" / "precious.py").write_text("x")
    with pytest.raises(ArchiveError, match="is no model directory, so it is not replaced"):
        write_archive(plan_archive(project()), store / "src", archive_format=DIRECTORY, force=True)
    assert contents(store) == {"src/precious.py": b"x"}


def test_force_replaces_a_link_to_a_model_and_not_what_it_leads_to(project, store, tmp_path):
    plan = plan_archive(project())
    elsewhere = write_archive(plan, tmp_path / "elsewhere", archive_format=DIRECTORY)
    before = contents(elsewhere)
    (store / "pong").symlink_to(elsewhere)
    newer = plan_archive(project(version="2.0"))
    write_archive(newer, store / "pong", archive_format=DIRECTORY, force=True)
    assert read_archive(store / "pong").manifest.model_version == "2.0"
    assert contents(elsewhere) == before
    assert listing(store) == ["pong"]


def test_a_model_that_cannot_take_its_name_gives_the_old_one_back(project, store, monkeypatch):
    plan = plan_archive(project())
    target = write_archive(plan, store / "pong", archive_format=DIRECTORY)
    before = contents(store)
    real, calls = Path.rename, []

    def fail_second(self: Path, new: Path) -> Path:
        calls.append(new)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        return real(self, new)

    monkeypatch.setattr(Path, "rename", fail_second)
    with pytest.raises(ArchiveError, match="cannot be written: Input/output error"):
        write_archive(plan, target, archive_format=DIRECTORY, force=True)
    assert contents(store) == before


@pytest.mark.parametrize(
    ("kind", "name"), [(TGZ, "pong.mar"), (TGZ, "pong"), (TGZ, ".tar.gz"), (DIRECTORY, "pong.mar")]
)
def test_a_name_of_another_format_is_refused(project, store, kind, name):
    with pytest.raises(ArchiveError, match=name):
        write_archive(plan_archive(project()), store / name, archive_format=kind)
    assert listing(store) == []
