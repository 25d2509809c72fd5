from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

FLAGS = ("--model-name", "echo", "--version", "1.0", "--handler", "handler.py")


@pytest.fixture
def archive(make_mar, model: Path) -> Path:
    done = make_mar(*FLAGS, cwd=model)
    assert done.code == 0, done
    return model / "echo.mar"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """An archive without RECORD: a warning."""
    path = tmp_path / "foreign.mar"
    with zipfile.ZipFile(path, "w") as packed:
        manifest = {"model": {"modelName": "m", "handler": "h.py"}}
        packed.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        packed.writestr("h.py", "def handle(data, context): ...\n")
    return path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.mar"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr("MAR-INF/MANIFEST.json", "{}")
    return path


def test_a_sound_archive_is_ok(make_mar, archive: Path) -> None:
    done = make_mar("verify", archive, "--strict")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{archive}\tok\n"


def test_a_broken_one_fails_and_each_finding_is_a_line(make_mar, archive, broken) -> None:
    done = make_mar("verify", archive, broken)
    assert done.code == 1
    assert done.out == f"{archive}\tok\n{broken}\t1 error\n"
    assert done.err.startswith(f"make-mar: {broken}: error[compression]: 'MAR-INF/MANIFEST.json'")
    assert done.err.count("\n") == 1


def test_warnings_fail_only_if_asked_to(make_mar, foreign) -> None:
    done = make_mar("verify", foreign)
    assert (done.code, done.out) == (0, f"{foreign}\t1 warning\n")
    assert "warning[no-record]" in done.err
    assert make_mar("verify", foreign, "--strict").code == 1


def test_its_json_holds_all_archives(make_mar, archive, foreign, broken) -> None:
    done = make_mar("verify", archive, foreign, broken, "--json")
    assert (done.code, done.err) == (1, "")
    assert [(each["errors"], each["warnings"]) for each in done.data] == [(0, 0), (0, 1), (1, 0)]
    (finding,) = done.data[2]["findings"]
    assert (finding["code"], finding["severity"]) == ("compression", "error")
    assert finding["fix"]


def test_one_that_is_not_there_keeps_no_other_from_being_verified(make_mar, archive) -> None:
    done = make_mar("verify", archive.parent / "no.mar", archive)
    assert done.code == 1
    assert done.out == f"{archive}\tok\n"
    assert "no.mar: cannot be read: No such file" in done.err
    make_mar("verify").assert_failed("missing argument", code=2)
