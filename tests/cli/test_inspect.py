from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

import makemar

FLAGS = ("--model-name", "echo", "--version", "1.0", "--handler", "handler.py")


@pytest.fixture
def archive(make_mar, model: Path) -> Path:
    (model / "conf.yaml").write_text("batchSize: 8\nmaxBatchDelay: 50\n")
    done = make_mar(*FLAGS, "--config-file", "conf.yaml", cwd=model)
    assert done.code == 0, done
    return model / "echo.mar"


def test_it_tells_what_an_archive_is_and_holds(make_mar, archive: Path) -> None:
    done = make_mar("inspect", archive)
    assert (done.code, done.err) == (0, "")
    lines = [line.split(":", 1) for line in done.out.splitlines() if ":" in line]
    facts = {name: value.strip() for name, value in lines}
    assert facts["name"] == "echo"
    assert facts["version"] == "1.0"
    assert facts["handler"] == "handler.py"
    assert facts["config"] == "conf.yaml: batchSize=8, maxBatchDelay=50"
    assert facts["RECORD"] == "matches"
    assert "MAR-INF/MANIFEST.json" in done.out


def test_its_json_holds_the_same(make_mar, archive: Path) -> None:
    data = make_mar("inspect", archive, "--json").data
    assert data["manifest"]["model_name"] == "echo"
    assert data["manifest"]["archiver_version"] == makemar.__version__
    assert data["config"] == {"batchSize": 8, "maxBatchDelay": 50}
    assert data["record"] == "matches"
    sizes = {member["name"]: member["size"] for member in data["members"]}
    assert sizes["handler.py"] == (archive.parent / "handler.py").stat().st_size


def test_a_handler_in_an_archive_is_not_run(make_mar, model: Path) -> None:
    trace = model / "ran"
    with (model / "words.py").open("a") as stream:
        stream.write(f"open({str(trace)!r}, 'w')\n")
    assert make_mar(*FLAGS, cwd=model).code == 0
    assert make_mar("inspect", "echo.mar", cwd=model).code == 0
    assert not trace.exists()


def test_what_is_no_archive_is_one_line(make_mar, tmp_path: Path) -> None:
    make_mar("inspect", tmp_path / "no.mar").assert_failed("no.mar")
    (tmp_path / "text.mar").write_text("hello")
    make_mar("inspect", tmp_path / "text.mar").assert_failed("text.mar")
    (tmp_path / "odd\nname.mar").write_text("hello")
    make_mar("inspect", tmp_path / "odd\nname.mar").assert_failed("odd\\nname.mar")
    make_mar("inspect").assert_failed("missing argument", code=2)


def test_a_pipe_is_refused_and_not_waited_for(make_mar, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mar")
    make_mar("inspect", tmp_path / "pipe.mar").assert_failed("is a pipe")


def test_what_a_server_would_stumble_over_is_pointed_out(make_mar, tmp_path: Path) -> None:
    path = tmp_path / "m.mar"
    with zipfile.ZipFile(path, "w") as packed:
        manifest = {"model": {"modelName": "m", "handler": "h.py"}}
        packed.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        packed.writestr("../evil.txt", "x")
        packed.writestr("/evil.txt", "x")
        packed.writestr("data.bin", "x", zipfile.ZIP_LZMA)
    done = make_mar("inspect", path)
    assert done.code == 0
    for code in ("unsafe-name", "absolute-name", "compression"):
        assert f"error[{code}]" in done.err
    assert "make-mar verify" in done.err
    assert len(make_mar("inspect", path, "--json").data["findings"]) == 3


def test_its_json_is_strict_whatever_is_in_the_config(make_mar, model: Path) -> None:
    (model / "conf.yaml").write_text("handler: {a: .nan, b: -.inf, c: 1.5}\n")
    assert make_mar(*FLAGS, "--config-file", "conf.yaml", cwd=model).code == 0
    done = make_mar("inspect", "echo.mar", "--json", cwd=model)

    def refuse(name: str) -> None:
        raise AssertionError(name)

    data = json.loads(done.out, parse_constant=refuse)
    assert data["config"]["handler"] == {"a": "nan", "b": "-inf", "c": 1.5}
