"""Writing a .mar: the same bytes every time, all of it or nothing, readable as a stream."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import signal
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from makemar.archiver import (
    ArchiveFormat,
    ArchiveSpec,
    Include,
    check_record,
    plan_archive,
    read_archive,
    write_archive,
    write_text,
)
from makemar.errors import ArchiveError, ArchiveExistsError

FILES = {
    "weights.pth": bytes(range(256)) * 9000,
    "labels.json": '["cat"]',
    "static/ü/größe.txt": "12",
    "static/empty.txt": "",
}
SPEC = {
    "serialized_file": Path("weights.pth"),
    "extra_files": ("labels.json",),
    "include": (Include(source=Path("static")),),
    "description": "Größe",
}
# A child process that packs; {act} sees the bytes so far, `done`, after each chunk.
CHILD = """
import os, signal, sys
from pathlib import Path
from makemar.archiver import ArchiveSpec, plan_archive, write_archive
from makemar.errors import MakeMarError
done = 0
def progress(count):
    global done
    done += count
    {act}
spec = ArchiveSpec(model_name="pong", version="1.0", handler="handler.py",
                   serialized_file=Path("weights.pth"), base=Path({base!r}))
try:
    write_archive(plan_archive(spec), Path({target!r}), force={force}, progress=progress)
except MakeMarError as error:
    sys.exit(f"{{type(error).__name__}}: {{error}}")
"""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def child(spec: ArchiveSpec, target: Path, act: str = "pass", *, force: bool = False) -> list[str]:
    code = CHILD.format(act=act, base=str(spec.base), target=str(target), force=force)
    return [sys.executable, "-c", code]


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["unnamed", "hidden"])
def draft(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to draft a file: Linux's files without a name, and everybody's hidden ones."""
    if request.param == "hidden":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no unnamed files")
    return str(request.param)


def test_source_date_epoch_sets_every_time(project, store, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1735689599")
    target = write_archive(plan_archive(project(FILES, **SPEC)), store / "pong.mar")
    assert read_archive(target).manifest.created_on == "31/12/2024 23:59:59"
    with zipfile.ZipFile(target) as archive:
        # A zip counts in steps of two seconds.
        assert {info.date_time for info in archive.infolist()} == {(2024, 12, 31, 23, 59, 58)}


def test_a_plan_s_time_is_the_archive_s_whenever_it_is_written(project, store, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1735689599")
    plan = plan_archive(project())
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    target = write_archive(plan, store / "pong.mar")
    with zipfile.ZipFile(target) as archive:
        assert {info.date_time for info in archive.infolist()} == {(2024, 12, 31, 23, 59, 58)}


@pytest.mark.parametrize("force", [False, True])
def test_a_text_is_written_as_a_whole_or_not_at_all(store, force):
    target = store / "config.properties"
    write_text(target, "größe=1\n")
    assert target.read_bytes() == "größe=1\n".encode()
    if force:
        write_text(target, "b=2\n", force=True)
        assert target.read_text() == "b=2\n"
    else:
        with pytest.raises(ArchiveExistsError, match="is there already"):
            write_text(target, "b=2\n")
    with pytest.raises(ArchiveError, match=r"Is a directory|is there already"):
        write_text(store, "x", force=force)
    with pytest.raises(ArchiveError, match="is not there; make it first"):
        write_text(store / "nope" / "x", "x", force=force)
    with pytest.raises(UnicodeEncodeError):
        write_text(target, "\ud800", force=True)
    assert listing(store) == ["config.properties"]


def test_the_archive_holds_what_the_plan_says_and_a_record_of_it(project, store):
    plan = plan_archive(project(FILES, **SPEC))
    target = write_archive(plan, store / "pong.mar")
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        order = [info.filename for info in archive.infolist()]
        assert order == [*(member.name for member in plan.members), "MAR-INF/RECORD"]
        for name, contents in FILES.items():
            expected = contents if isinstance(contents, bytes) else contents.encode()
            assert archive.read(name) == expected
    assert check_record(target) == ()


def read_as_a_stream(data: bytes) -> dict[str, bytes]:
    """Unpack as TorchServe does, from local headers alone; only what its reader copes with."""
    found, at = {}, 0
    while data[at : at + 4] == b"PK\x03\x04":
        header = struct.unpack("<HHHHHIIIHH", data[at + 4 : at + 30])
        _, flags, method, _, _, crc, stored, size, name_length, extra_length = header
        assert flags & ~0x800 == 0, "no descriptor, no encryption: UTF-8 names at most"
        assert method == 0, "stored"
        start = at + 30 + name_length
        name = data[at + 30 : start].decode()
        extra = data[start : start + extra_length]
        if size == 0xFFFFFFFF:
            assert struct.unpack("<HH", extra[:4]) == (1, 16)
            size, stored = struct.unpack("<QQ", extra[4:20])
        assert size == stored
        body = data[start + extra_length : start + extra_length + size]
        assert zlib.crc32(body) == crc
        found[name], at = body, start + extra_length + size
    assert data[at : at + 4] == b"PK\x01\x02", "the central directory follows at once"
    return found


@pytest.mark.parametrize("limit", [zipfile.ZIP64_LIMIT, 1_000_000], ids=["short", "zip64"])
def test_every_local_header_is_complete(project, store, monkeypatch, limit):
    # The limit is lowered rather than 4 GiB written.
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
    plan = plan_archive(project(FILES, **SPEC))
    data = write_archive(plan, store / "pong.mar").read_bytes()
    found = read_as_a_stream(data)
    assert found["weights.pth"] == FILES["weights.pth"]
    assert set(found) == {*(member.name for member in plan.members), "MAR-INF/RECORD"}


def test_progress_adds_up_to_the_size_of_the_plan(project, store):
    plan = plan_archive(project(FILES, **SPEC))
    seen: list[int] = []
    write_archive(plan, store / "pong.mar", progress=seen.append)
    assert sum(seen) == plan.size
    assert min(seen) > 0
    assert max(seen) <= 1 << 20


@pytest.mark.usefixtures("draft")
class TestPublishing:
    def test_an_existing_archive_is_kept_unless_forced(self, project, store):
        plan = plan_archive(project())
        target = store / "pong.mar"
        target.write_text("precious")
        seen: list[int] = []
        with pytest.raises(ArchiveExistsError, match=r"is there already; .*force=True \(--force\)"):
            write_archive(plan, target, progress=seen.append)
        assert (target.read_text(), seen) == ("precious", [])
        assert write_archive(plan, target, force=True) == target
        assert check_record(target) == ()
        assert listing(store) == ["pong.mar"]

    def test_a_dangling_link_is_an_existing_archive(self, project, store):
        (store / "pong.mar").symlink_to("nowhere")
        with pytest.raises(ArchiveExistsError):
            write_archive(plan_archive(project()), store / "pong.mar")

    def test_an_archive_that_appears_meanwhile_is_kept(self, project, store):
        target = store / "pong.mar"
        plan = plan_archive(project())

        def progress(count: int) -> None:
            target.write_text("somebody else's")

        with pytest.raises(ArchiveExistsError):
            write_archive(plan, target, progress=progress)
        assert target.read_text() == "somebody else's"
        assert listing(store) == ["pong.mar"]

    @pytest.mark.parametrize("force", [False, True])
    @pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError, SystemExit])
    def test_an_interrupted_write_leaves_the_folder_as_it_was(self, project, store, force, failure):
        target = store / "pong.mar"
        if force:
            target.write_text("old")
        seen: list[list[str]] = []

        def progress(count: int) -> None:
            seen.append(listing(store))
            raise failure

        with pytest.raises(failure):
            write_archive(plan_archive(project()), target, force=force, progress=progress)
        assert listing(store) == (["pong.mar"] if force else [])
        assert not force or target.read_text() == "old"
        # What lies there meanwhile is hidden, so that no server loads it.
        assert all(name.startswith(".") for name in {*seen[0]} - {"pong.mar"})

    def test_a_folder_that_is_not_there_is_named(self, project, store):
        with pytest.raises(ArchiveError, match=r"the folder .*/nope is not there; make it first"):
            write_archive(plan_archive(project()), store / "nope" / "pong.mar")

    def test_a_directory_in_the_way_is_not_replaced(self, project, store):
        (store / "pong.mar").mkdir()
        with pytest.raises(ArchiveError, match=r"pong\.mar: cannot be written: Is a directory"):
            write_archive(plan_archive(project()), store / "pong.mar", force=True)
        assert listing(store) == ["pong.mar"]


def test_a_file_system_without_hard_links_will_do(project, store, monkeypatch):
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    monkeypatch.setattr(os, "link", refuse)
    plan = plan_archive(project())
    target = write_archive(plan, store / "pong.mar")
    assert check_record(target) == ()
    with pytest.raises(ArchiveExistsError):
        write_archive(plan, target)
    assert listing(store) == ["pong.mar"]


def test_a_pack_that_is_killed_leaves_no_file(project, store):
    spec = project()
    sparse(spec.base / "weights.pth", 64 << 20)
    act = "done > 32 << 20 and os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run(child(spec, store / "pong.mar", act), check=False)
    assert done.returncode == -signal.SIGKILL
    # Where there are no files without a name, a hidden draft may stay, never the name itself.
    left = listing(store)
    assert left == [] or (not hasattr(os, "O_TMPFILE") and left[0].startswith(".pong.mar."))


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_pack_that_is_stopped_leaves_the_old_archive(project, store, name):
    spec = project()
    sparse(spec.base / "weights.pth", 64 << 20)
    (store / "pong.mar").write_text("old")
    act = f"done > 32 << 20 and os.kill(os.getpid(), signal.{name})"
    command = child(spec, store / "pong.mar", act, force=True)
    done = subprocess.run(command, check=False, capture_output=True)
    assert done.returncode == -getattr(signal, name)
    assert (store / "pong.mar").read_text() == "old"
    assert listing(store) == ["pong.mar"]


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def rewrite(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))
    os.utime(path, (1, 1))


def shrink(path: Path) -> None:
    os.truncate(path, 10)


@pytest.mark.parametrize("kind", list(ArchiveFormat))
@pytest.mark.parametrize("change", [grow, shrink, rewrite])
def test_a_source_that_changed_since_the_plan_is_refused(project, store, change, kind):
    spec = project(FILES, **SPEC)
    plan = plan_archive(spec)
    change(spec.base / "weights.pth")
    with pytest.raises(ArchiveError, match=r"weights\.pth: changed while it was packed"):
        write_archive(plan, store / f"pong{kind.suffix}", archive_format=kind)
    assert listing(store) == []


@pytest.mark.parametrize("change", [grow, shrink, rewrite])
def test_a_source_that_changes_while_it_is_read_is_refused(
    project, store, change: Callable[[Path], None]
):
    spec = project(FILES, **SPEC)
    plan = plan_archive(spec)
    weights = spec.base / "weights.pth"

    def progress(count: int) -> None:
        # Only the weights come in chunks of this size.
        if count == 1 << 20:
            change(weights)

    with pytest.raises(ArchiveError, match=r"weights\.pth: changed while it was packed"):
        write_archive(plan, store / "pong.mar", progress=progress)
    assert listing(store) == []


def test_a_source_that_is_gone_is_named(project, store):
    spec = project(FILES, **SPEC)
    plan = plan_archive(spec)
    (spec.base / "labels.json").unlink()
    with pytest.raises(ArchiveError, match=r"labels\.json: cannot be read: No such file") as caught:
        write_archive(plan, store / "pong.mar")
    assert caught.value.path == spec.base / "labels.json"
    assert listing(store) == []


def test_packing_takes_little_memory(project, store):
    spec = project()
    sparse(spec.base / "weights.pth", 300 << 20)
    command = child(spec, store / "pong.mar")
    # The resource module would count the parent's memory, which a fork starts with.
    command[-1] += "print(Path('/proc/self/status').read_text())\n"
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", done.stdout)
    assert int(peak) < 60_000


@pytest.mark.parametrize("name", ["pong", "pong.MAR", "pong.zip", ".mar", "pong.mar.gz"])
def test_a_name_that_torchserve_would_not_read_as_a_zip_is_refused(project, store, name):
    with pytest.raises(ArchiveError, match=r"end it in \.mar"):
        write_archive(plan_archive(project()), store / name)
