"""Unpacking gives what TorchServe would see, outside of nothing, or nothing at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from broken_archives import BROKEN, HANDLER, MANIFEST, assembled, directory, files, mar
from odd_archives import ODD, packed_by_makemar

from makemar.archiver import read_archive, unpack_archive, verify_archive
from makemar.errors import ArchiveError, ArchiveExistsError, IntegrityError

# Its names and bytes are sound; what is wrong is what they say.
UNPACKABLE_CODES = ("manifest-", "no-", "model-", "version", "runtime", "missing-", "config-")
UNPACKABLE_CODES += ("handler-", "syntax-", "many-", "class-", "shadowed-", "unrecorded-")
UNPACKABLE_CODES += ("damaged-record", "archive-name", "flat-", "wrapper-")


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("kind", ["zip-store", "tgz", "no-archive"])
def test_what_is_unpacked_is_what_was_packed_and_a_model_directory(tmp_path, kind):
    path = packed_by_makemar(tmp_path, "pong", kind)
    target = unpack_archive(path, tmp_path / "out")
    assert target == tmp_path / "out"
    assert verify_archive(target) == ()
    found, packed = read_archive(target).members, read_archive(path).members
    assert sorted(found, key=str) == sorted(packed, key=str)
    assert tree(target)["handler.py"] == HANDLER.encode()


def test_modes_are_fixed_whatever_the_archive_and_the_umask_say(tmp_path):
    path = assembled(
        tmp_path,
        "m",
        more={"data/run.sh": "x"},
        centrals={b"data/run.sh": {"mode": stat.S_IFREG | stat.S_ISUID | 0o777}},
    )
    for umask in (0, 0o077):
        before = os.umask(umask)
        try:
            target = unpack_archive(path, tmp_path / f"out{umask}")
        finally:
            os.umask(before)
        for found in (target, *target.rglob("*")):
            mode = stat.S_IMODE(found.stat().st_mode)
            assert mode == (0o755 if found.is_dir() else 0o644), found


SOUND = [case for case in BROKEN if case.code.startswith(UNPACKABLE_CODES)]
UNSOUND = [case for case in BROKEN if case not in SOUND]


@pytest.mark.parametrize(
    "case", [case for case in UNSOUND if case.name != "bomb"], ids=lambda case: case.name
)
def test_a_broken_archive_leaves_nothing(tmp_path, case):
    made = tmp_path / "made"
    made.mkdir()
    path = case.make(made)
    with pytest.raises(ArchiveError) as caught:
        unpack_archive(path, tmp_path / "out")
    assert {finding.code for finding in caught.value.findings} <= {case.code, *case.also}
    assert caught.value.findings
    assert "\n" not in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize(
    "case", [c for c in SOUND if c.code != "no-central-directory"], ids=lambda case: case.name
)
def test_one_that_is_only_wrong_in_what_it_says_can_be_looked_into(tmp_path, case):
    path = case.make(tmp_path)
    target = unpack_archive(path, tmp_path / "out")
    assert target.is_dir()


def test_a_link_that_leads_out_of_a_directory_is_refused_and_a_pipe_left_out(tmp_path):
    path = directory(tmp_path, "m", files("m"))
    os.mkfifo(path / "pipe")
    (path / "again.py").symlink_to("handler.py")
    target = unpack_archive(path, tmp_path / "out")
    assert set(tree(target)) == {MANIFEST, "handler.py", "again.py"}
    assert not (target / "again.py").is_symlink()
    (path / "secret").symlink_to("/etc/hostname")
    with pytest.raises(IntegrityError, match="is a link to /etc/hostname"):
        unpack_archive(path, tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_a_bomb_is_stopped_at_the_limit(tmp_path):
    members = files("m") | {"zeros.bin": bytes(50_000_000)}
    path = mar(tmp_path, "m", members, method=zipfile.ZIP_DEFLATED)
    with pytest.raises(IntegrityError, match="unpacks to more than 1,000,000 bytes") as caught:
        unpack_archive(path, tmp_path / "out", max_bytes=1_000_000)
    assert [finding.code for finding in caught.value.findings] == ["archive-bomb"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.mar"]
    assert unpack_archive(path, tmp_path / "out", max_bytes=51_000_000).is_dir()


def test_what_is_there_is_replaced_only_when_told_so_and_only_if_it_is_a_model(tmp_path):
    path = mar(tmp_path, "m", files("m"))
    target = unpack_archive(path, tmp_path / "out")
    (target / "stale.txt").write_text("x")
    with pytest.raises(ArchiveExistsError):
        unpack_archive(path, target)
    assert (target / "stale.txt").exists()
    unpack_archive(path, target, force=True)
    assert set(tree(target)) == {MANIFEST, "handler.py"}
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "one.jpg").write_text("x")
    with pytest.raises(ArchiveError, match="is no model directory"):
        unpack_archive(path, photos, force=True)
    assert tree(photos) == {"one.jpg": b"x"}


def test_a_failure_with_force_keeps_what_was_there(tmp_path):
    target = unpack_archive(mar(tmp_path, "m", files("m")), tmp_path / "out")
    before = tree(target)
    bad = mar(tmp_path, "bad", files("m") | {"../evil.txt": "x"})
    with pytest.raises(IntegrityError, match=r"climbs out of folders"):
        unpack_archive(bad, target, force=True)
    assert tree(target) == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bad.mar", "m.mar", "out"]


@pytest.mark.parametrize(
    ("path", "target", "reason"),
    [
        ("missing.mar", "out", "missing.mar: cannot be read"),
        ("m.mar", "no/such/out", "the folder .* is not there"),
    ],
)
def test_what_cannot_be_read_or_written_is_named(tmp_path, path, target, reason):
    mar(tmp_path, "m", files("m"))
    with pytest.raises(ArchiveError, match=reason):
        unpack_archive(tmp_path / path, tmp_path / target)


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    path = mar(tmp_path, "m", files("m"))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fchmod", interrupt)
    with pytest.raises(KeyboardInterrupt):
        unpack_archive(path, tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.mar"]


@pytest.mark.parametrize("name", ["directory_in_a_directory", "tarball_of_two_tops"])
def test_folders_are_as_torchserve_has_them(tmp_path, name):
    target = unpack_archive(ODD[name](tmp_path, name), tmp_path / "out")
    assert {MANIFEST, "handler.py"} == set(tree(target))


def test_unpacking_takes_little_memory(tmp_path):
    path = mar(tmp_path, "m", files("m") | {"zeros.bin": bytes(200_000_000)})
    code = (
        "import pathlib, re\n"
        "from makemar.archiver import unpack_archive\n"
        f"unpack_archive(pathlib.Path({str(path)!r}), pathlib.Path({str(tmp_path / 'o')!r}))\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100_000  # kilobytes
