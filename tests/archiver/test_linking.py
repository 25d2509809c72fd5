"""A model directory whose large files are links: no copy, and no source that is touched."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from makemar.archiver import (
    ArchiveFormat,
    ArchiveSpec,
    check_record,
    plan_archive,
    write_and_hash,
    write_archive,
)
from makemar.errors import ArchiveError

LARGE = bytes(range(256)) * 8000
FILES = {"weights.pth": LARGE, "small.bin": b"x" * 1000}
SPEC = {"serialized_file": Path("weights.pth"), "extra_files": ("small.bin",)}


def link(spec: ArchiveSpec, target: Path, **options: object) -> Path:
    return write_archive(
        plan_archive(spec), target, archive_format=ArchiveFormat.DIRECTORY, link=True, **options
    )


@pytest.fixture
def clones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that clones, which few machines of developers have: here it copies."""

    def clone(new, request: int, old: int) -> int:
        assert request == 0x40049409
        with os.fdopen(os.dup(old), "rb") as source:
            shutil.copyfileobj(source, new)
        new.flush()
        return 0

    monkeypatch.setattr(fcntl, "ioctl", clone)


@pytest.fixture
def hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot clone, whatever this one can."""

    def refuse(*args: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "ioctl", refuse)


def test_a_link_is_what_this_disk_can_do_and_holds_the_same(project, store):
    plan = plan_archive(project(FILES, **SPEC))
    copied = write_and_hash(plan, store / "copied", archive_format=ArchiveFormat.DIRECTORY)
    linked = write_and_hash(
        plan, store / "linked", archive_format=ArchiveFormat.DIRECTORY, link=True
    )
    assert (linked.size, linked.record_sha256) == (copied.size, copied.record_sha256)
    assert check_record(linked.path) == ()
    assert (linked.path / "weights.pth").read_bytes() == LARGE


@pytest.mark.usefixtures("hard_links")
class TestHardLink:
    def test_a_large_file_is_the_source_itself_and_keeps_its_time(self, project, store):
        spec = project(FILES, **SPEC)
        source = spec.base / "weights.pth"
        source.chmod(0o640)
        before = source.stat()
        target = link(spec, store / "pong")
        after = source.stat()
        assert (target / "weights.pth").samefile(source)
        assert (after.st_mtime_ns, after.st_mode) == (before.st_mtime_ns, before.st_mode)

    def test_code_and_small_files_are_copies_that_an_edit_does_not_reach(self, project, store):
        spec = project(FILES, **SPEC)
        target = link(spec, store / "pong")
        with (spec.base / "small.bin").open("r+b") as file:
            file.write(b"edited")
        (spec.base / "handler.py").write_text("# edited\n")
        assert check_record(target) == ()
        links = {path.name for path in target.rglob("*") if path.is_file() and links_of(path) > 1}
        assert links == {"weights.pth"}

    def test_an_edit_in_place_of_a_linked_file_is_told(self, project, store):
        spec = project(FILES, **SPEC)
        target = link(spec, store / "pong")
        with (spec.base / "weights.pth").open("r+b") as file:
            file.write(b"edited")
        (finding,) = check_record(target)
        assert "weights.pth" in str(finding)

    def test_a_source_that_is_replaced_leaves_the_archive_as_it_was(self, project, store):
        spec = project(FILES, **SPEC)
        target = link(spec, store / "pong")
        (spec.base / "new").write_bytes(b"new")
        (spec.base / "new").replace(spec.base / "weights.pth")
        assert check_record(target) == ()

    def test_a_symbolic_link_leads_to_the_file_and_not_to_a_link(self, project, store):
        spec = project(FILES, **SPEC)
        blob = (spec.base / "weights.pth").rename(spec.base / "blob")
        (spec.base / "weights.pth").symlink_to("blob")
        linked = link(spec, store / "pong") / "weights.pth"
        assert not linked.is_symlink()
        assert linked.samefile(blob)

    def test_force_replaces_a_linked_archive_and_keeps_the_source(self, project, store):
        spec = project(FILES, **SPEC)
        link(spec, store / "pong")
        link(spec, store / "pong", force=True)
        assert links_of(spec.base / "weights.pth") == 2
        shutil.rmtree(store / "pong")
        assert (spec.base / "weights.pth").read_bytes() == LARGE

    def test_a_failure_keeps_the_source(self, project, store):
        spec = project(FILES, **SPEC)

        def fail(count: int) -> None:
            if count > 1 << 20:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            link(spec, store / "pong", progress=fail)
        assert list(store.iterdir()) == []
        assert (spec.base / "weights.pth").read_bytes() == LARGE


@pytest.mark.usefixtures("clones")
class TestClone:
    def test_a_clone_is_a_file_of_its_own(self, project, store):
        spec = project(FILES, **SPEC)
        target = link(spec, store / "pong")
        cloned = target / "weights.pth"
        assert not cloned.samefile(spec.base / "weights.pth")
        assert cloned.stat().st_mtime == 315532800
        with (spec.base / "weights.pth").open("r+b") as file:
            file.write(b"edited")
        assert check_record(target) == ()

    def test_a_source_that_changed_since_the_plan_is_refused(self, project, store):
        spec = project(FILES, **SPEC)
        plan = plan_archive(spec)
        os.utime(spec.base / "weights.pth", (1, 1))
        with pytest.raises(ArchiveError, match=r"project/weights\.pth: changed while"):
            write_archive(plan, store / "m", archive_format=ArchiveFormat.DIRECTORY, link=True)
        assert list(store.iterdir()) == []


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than `tmp_path`."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system to write to")
    folder = other / f"makemar-{os.getpid()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def test_across_file_systems_a_link_is_a_copy(project, elsewhere):
    spec = project(FILES, **SPEC)
    target = link(spec, elsewhere / "pong")
    assert not (target / "weights.pth").samefile(spec.base / "weights.pth")
    assert check_record(target) == ()


@pytest.mark.parametrize("kind", [ArchiveFormat.MAR, ArchiveFormat.TGZ])
def test_only_a_directory_can_link(project, store, kind):
    with pytest.raises(ArchiveError, match=r"link \(--link\) .*no-archive, or leave it out"):
        write_archive(
            plan_archive(project()), store / f"m{kind.suffix}", archive_format=kind, link=True
        )
    assert list(store.iterdir()) == []


def links_of(path: Path) -> int:
    return path.stat().st_nlink
