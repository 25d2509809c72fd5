"""Findings on the command line: told, silenced with a reason, or made errors."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

FLAGS = ("--model-name", "echo", "--version", "1.0", "--handler", "handler.py")
NEWER = "import tomllib\n"


@pytest.fixture
def warned(model: Path) -> Path:
    """A model with one warning: its code is newer than the server's Python."""
    (model / "words.py").write_text(NEWER + 'NAME = "echo"\n')
    return model


def test_a_warning_does_not_keep_an_archive_from_being_written(make_mar, warned: Path) -> None:
    done = make_mar(*FLAGS, cwd=warned)
    assert done.code == 0
    assert done.err.startswith("make-mar: words.py:1: warning[target-python]: the module 'tomllib'")
    assert done.err.count("\n") == 1
    assert (warned / "echo.mar").exists()


def test_strict_does(make_mar, warned: Path) -> None:
    done = make_mar(*FLAGS, "--strict", cwd=warned)
    done.assert_failed("words.py:1: error[target-python]")
    assert not (warned / "echo.mar").exists()


@pytest.mark.parametrize(
    "accepted",
    [
        ("--target-python", "3.11"),
        ("--silence", "target-python=our image has 3.12", "--json"),
    ],
)
def test_what_is_accepted_is_not_told(make_mar, warned: Path, accepted) -> None:
    done = make_mar(*FLAGS, "--strict", *accepted, cwd=warned)
    assert (done.code, done.err) == (0, "")
    if "--json" in accepted:
        assert done.data["findings"] == []
        assert [f["code"] for f in done.data["silenced"]] == ["target-python"]


def test_the_servers_python_may_stand_in_the_environment(make_mar, warned: Path) -> None:
    done = make_mar(*FLAGS, "--strict", cwd=warned, env={"MAKEMAR_TARGET_PYTHON": "3.11"})
    assert (done.code, done.err) == (0, "")


def test_a_mar_toml_silences_with_a_reason(make_mar, warned: Path) -> None:
    spec = '[model]\nname = "echo"\nversion = "1.0"\nhandler = "handler.py"\n'
    spec += '[silence]\ntarget-python = "our image has 3.12"\n[archive]\nstrict = true\n'
    (warned / "mar.toml").write_text(spec)
    assert make_mar("pack", "--dry-run", "--json", cwd=warned).data["findings"] == []
    (warned / "mar.toml").write_text(spec.replace("our image has 3.12", ""))
    make_mar("pack", cwd=warned).assert_failed("mar.toml:6:", "no reason to silence")
    (warned / "mar.toml").write_text(spec.replace("target-python", "target-pyton"))
    make_mar("pack", cwd=warned).assert_failed("mar.toml:6:", "did you mean 'target-python'?")


@pytest.mark.parametrize(
    ("silence", "words"),
    [
        ("target-pyton=why", "did you mean 'target-python'?"),
        ("target-python", "no reason to silence"),
        ("syntax-error=why", "cannot be silenced"),
    ],
)
def test_a_silence_that_cannot_be_meant_is_refused(make_mar, warned: Path, silence, words) -> None:
    make_mar(*FLAGS, "--silence", silence, cwd=warned).assert_failed(words)


def test_a_class_of_a_package_is_packed_with_its_entry_module(make_mar, model: Path) -> None:
    (model / "pkg").mkdir()
    (model / "pkg" / "__init__.py").touch()
    handler = (model / "handler.py").read_text().replace("from words", "from .words")
    (model / "pkg" / "service.py").write_text(handler + "\n\nclass Other: ...\n")
    (model / "words.py").rename(model / "pkg" / "words.py")
    flags = ("--model-name", "echo", "--version", "1.0", "--handler", "pkg.service:Echo")
    done = make_mar(*flags, cwd=model)
    assert (done.code, done.err) == (0, "")
    with zipfile.ZipFile(model / "echo.mar") as archive:
        manifest = json.loads(archive.read("MAR-INF/MANIFEST.json"))
        assert manifest["model"]["handler"] == "echo_entry.py"
        assert b"from pkg.service import Echo as _Handler" in archive.read("echo_entry.py")
        assert {"pkg/__init__.py", "pkg/service.py", "pkg/words.py"} < set(archive.namelist())


def test_an_envelope_is_named_for_its_checks_alone(make_mar, model: Path) -> None:
    (model / "c.yaml").write_text("batchSize: 4\n")
    flags = (*FLAGS, "--config-file", "c.yaml", "--target-envelope", "kserve")
    make_mar(*flags, cwd=model).assert_failed("c.yaml: error[envelope-batch]")


def test_a_nested_mar_toml_is_one_line(make_mar, model: Path) -> None:
    (model / "mar.toml").write_text("a = " + "[" * 5000)
    make_mar("pack", cwd=model).assert_failed("mar.toml: TOML that cannot be read")
