"""Reading archives, sound and broken, without running or unpacking anything of them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from makemar.archiver import (
    ArchiveFormat,
    Include,
    RecordState,
    check_record,
    plan_archive,
    read_archive,
    write_archive,
)
from makemar.errors import ArchiveError, IntegrityError, MakeMarError, ManifestError

MANIFEST = json.dumps({"model": {"modelName": "m", "handler": "h.py", "modelVersion": "1"}})
CONFIG = "minWorkers: 1\nmaxWorkers: 2\nhandler:\n  topk: 5\n  since: 2024-01-02\n"


@pytest.fixture
def plan(project):
    files = {"c.yaml": CONFIG, "data/weights.pth": bytes(3_000_000), "data/a.txt": "a"}
    return plan_archive(
        project(files, config_file=Path("c.yaml"), include=(Include(source=Path("data")),))
    )


def zipped(path: Path, files: dict[str, str], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, contents in files.items():
            archive.writestr(name, contents)
    return path


@pytest.mark.parametrize("kind", list(ArchiveFormat))
def test_an_archive_tells_what_is_in_it(plan, store, kind):
    path = write_archive(plan, store / f"pong{kind.suffix}", archive_format=kind)
    archive = read_archive(path)
    assert (archive.path, archive.archive_format) == (path, kind)
    assert archive.manifest == plan.manifest
    assert archive.record is RecordState.MATCHES
    assert archive.config == {
        "minWorkers": 1,
        "maxWorkers": 2,
        "handler": {"topk": 5, "since": "2024-01-02"},
    }
    sizes = {member.name: member.size for member in archive.members}
    assert sizes["data/weights.pth"] == 3_000_000
    assert archive.size == sum(sizes.values()) == plan.size + sizes["MAR-INF/RECORD"]
    told = json.loads(json.dumps(archive.to_dict()))
    assert told["format"] == kind.name.lower()
    assert told["manifest"]["model_name"] == "pong"
    assert {"name": "data/a.txt", "size": 1} in told["members"]
    assert (told["record"], told["size"]) == ("matches", archive.size)
    assert told["config"]["minWorkers"] == 1


def test_an_archive_of_another_tool_is_read_as_well(tmp_path):
    files = {"h.py": "x", "MAR-INF/MANIFEST.json": MANIFEST}
    archive = read_archive(zipped(tmp_path / "m.mar", files, zipfile.ZIP_DEFLATED))
    assert archive.record is RecordState.ABSENT
    assert archive.config is None
    assert archive.manifest.model_name == "m"


def test_a_directory_inside_a_directory_is_read_as_torchserve_reads_it(plan, store):
    write_archive(plan, store / "pong", archive_format=ArchiveFormat.DIRECTORY)
    assert read_archive(store).manifest == plan.manifest
    assert check_record(store) == ()


def test_what_a_server_leaves_in_a_directory_is_no_member(plan, store):
    path = write_archive(plan, store / "pong", archive_format=ArchiveFormat.DIRECTORY)
    (path / "__pycache__").mkdir()
    (path / "__pycache__" / "handler.cpython-311.pyc").write_bytes(b"x")
    assert read_archive(path).record is RecordState.MATCHES
    assert check_record(path) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a\n",
        "a: [\n",
        "a: !!python/object/apply:os.getcwd []\n",
        "a: &a [x]\nb: &b [*a,*a,*a,*a]\n"
        + "".join(
            f"c{i}: &c{i} [{','.join([f'*c{i - 1}' if i else '*b'] * 9)}]\n" for i in range(9)
        ),
        "a: &a [*a]\n",
        "[" * 10_000,
        "1: 2\n",
        "a: !!bool x\n",
        "a: !!int ''\n",
    ],
    ids=["empty", "list", "broken", "code", "laughs", "circle", "deep", "number", "bool", "int"],
)
def test_a_config_that_is_no_plain_mapping_is_none(tmp_path, text):
    manifest = json.loads(MANIFEST)
    manifest["model"]["configFile"] = "c.yaml"
    files = {"c.yaml": text, "MAR-INF/MANIFEST.json": json.dumps(manifest)}
    assert read_archive(zipped(tmp_path / "m.mar", files)).config is None


def broken(path: Path, make: str) -> Path:
    """Make one broken archive, named for what is wrong with it."""
    sound = zipped(path / "sound.mar", {"MAR-INF/MANIFEST.json": MANIFEST}).read_bytes()
    target = path / ("m.tar.gz" if make.endswith("tar") else "m.mar")
    if make == "empty":
        target.write_bytes(b"")
    elif make == "text":
        target.write_text("hello")
    elif make == "truncated":
        target.write_bytes(sound[: len(sound) // 2])
    elif make == "prefixed":
        target.write_bytes(b"#!/bin/sh\n" + sound)
    elif make == "no manifest":
        zipped(target, {"h.py": ""})
    elif make == "wrapper":
        zipped(target, {"m/MAR-INF/MANIFEST.json": MANIFEST})
    elif make == "null manifest":
        zipped(target, {"MAR-INF/MANIFEST.json": "null"})
    elif make == "huge manifest":
        zipped(target, {"MAR-INF/MANIFEST.json": " " * (17 << 20)}, zipfile.ZIP_DEFLATED)
    elif make == "flipped":
        target.write_bytes(sound.replace(b'"modelName"', b'"modelname"', 1))
    elif make == "a tgz":
        with tarfile.open(target, "w:gz"):
            pass
    elif make == "a zip named tar":
        target.write_bytes(sound)
    elif make == "plain tar":
        with tarfile.open(target, "w"):
            pass
    elif make == "flat tar":
        with tarfile.open(target, "w:gz") as archive:
            info = tarfile.TarInfo("MAR-INF/MANIFEST.json")
            info.size = len(MANIFEST)
            archive.addfile(info, io.BytesIO(MANIFEST.encode()))
    elif make == "cut tar":
        with tarfile.open(target, "w:gz") as archive:
            info = tarfile.TarInfo("m/x")
            info.size = 100_000
            archive.addfile(info, io.BytesIO(os.urandom(100_000)))
        target.write_bytes(target.read_bytes()[:50_000])
    return target


@pytest.mark.parametrize(
    ("make", "kind", "reason"),
    [
        ("missing", ArchiveError, "cannot be read: No such file"),
        ("empty", ArchiveError, "named .mar, but no zip starts here; pack it again"),
        ("text", ArchiveError, "named .mar, but no zip starts here"),
        ("prefixed", ArchiveError, "no zip starts here"),
        ("a tgz", ArchiveError, "no zip starts here; rename it to .tar.gz"),
        (
            "a zip named tar",
            ArchiveError,
            "is a zip, which TorchServe reads only if its name ends with .mar",
        ),
        ("plain tar", ArchiveError, "neither a .mar nor a .tar.gz archive"),
        ("truncated", IntegrityError, "damaged"),
        ("flipped", IntegrityError, "damaged"),
        ("cut tar", IntegrityError, "damaged"),
        ("no manifest", ManifestError, "there is no MAR-INF/MANIFEST.json in it"),
        ("wrapper", ManifestError, "there is no MAR-INF/MANIFEST.json in it"),
        ("flat tar", ManifestError, "there is no MAR-INF/MANIFEST.json in it"),
        ("null manifest", ManifestError, "the manifest is missing"),
        ("huge manifest", ArchiveError, "is over 16 MiB"),
    ],
)
def test_a_broken_archive_is_one_clear_line(tmp_path, make, kind, reason):
    path = broken(tmp_path, make)
    with pytest.raises(ArchiveError) as caught:
        read_archive(path)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.path == path


def test_a_directory_without_a_manifest_is_no_archive(tmp_path):
    with pytest.raises(ManifestError, match="is it an archive for TorchServe"):
        read_archive(tmp_path)


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> dict[str, bytes]:
    """One sound archive of each packed format."""
    from makemar.archiver import ArchiveSpec

    folder = tmp_path_factory.mktemp("sound")
    (folder / "handler.py").write_text("def handle(data, context): ...\n")
    spec = ArchiveSpec(model_name="m", version="1", handler="handler.py", vendor=False, base=folder)
    plan = plan_archive(spec)
    write_archive(plan, folder / "m.mar")
    write_archive(plan, folder / "m.tgz", archive_format=ArchiveFormat.TGZ)
    return {name: (folder / name).read_bytes() for name in ("m.mar", "m.tgz")}


@pytest.mark.parametrize("name", ["m.mar", "m.tgz"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_damage_gives_anything_but_our_own_errors(sound, tmp_path, name, data):
    contents = bytearray(sound[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(contents) - 1))
        contents[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del contents[data.draw(st.integers(1, len(contents))) :]
    path = tmp_path / name
    path.write_bytes(contents)
    for read in (read_archive, check_record):
        # Whatever else comes out fails the test.
        with contextlib.suppress(MakeMarError):
            read(path)


def rewritten(path: Path, change) -> Path:
    """Rewrite a .mar after `change` has had its way with its members."""
    with zipfile.ZipFile(path) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w") as archive:
        for name, contents in change(members):
            archive.writestr(name, contents)
    return path


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda members: members, []),
        (lambda members: members[::-1], []),
        (
            lambda m: (
                [(n, c.replace(b"pong", b"ping")) for n, c in m if "RECORD" not in n] + m[-1:]
            ),
            ["changed-member", "changed-member"],
        ),
        (lambda members: [*members, ("evil.py", b"")], ["unrecorded-member"]),
        (lambda members: [m for m in members if m[0] != "data/a.txt"], ["missing-member"]),
        (lambda members: [m for m in members if "RECORD" not in m[0]], ["no-record"]),
        (lambda members: [*members[:-1], ("MAR-INF/RECORD", b"x,y,z\n")], ["damaged-record"]),
    ],
    ids=["same", "order", "changed", "added", "gone", "no record", "broken record"],
)
def test_what_was_changed_since_packing_is_named(plan, store, change, expected):
    path = rewritten(write_archive(plan, store / "pong.mar"), change)
    assert [finding.code for finding in check_record(path)] == expected
    state = read_archive(path).record
    assert (state is RecordState.MATCHES) == (expected in ([], ["changed-member"] * 2))


def test_a_member_that_is_there_twice_is_named(plan, store):
    path = write_archive(plan, store / "pong.mar")
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(path, "a") as archive,
    ):
        archive.writestr("handler.py", "evil")
    codes = [finding.code for finding in check_record(path)]
    assert codes == ["duplicate-member", "changed-member"]
    assert read_archive(path).record is RecordState.DIFFERS


def test_one_flipped_bit_in_the_weights_is_found_in_every_format(plan, store):
    for kind in ArchiveFormat:
        path = write_archive(plan, store / f"pong{kind.suffix}", archive_format=kind)
        file = path / "data" / "weights.pth" if path.is_dir() else path
        contents = bytearray(file.read_bytes())
        contents[len(contents) // 2] ^= 1
        file.write_bytes(contents)
        assert {f.code for f in check_record(path)} <= {
            "damaged-archive",
            "damaged-member",
            "changed-member",
        }
        assert check_record(path) != ()
