from __future__ import annotations

from pathlib import Path

FLAGS = ("--model-name", "echo", "--version", "1.0", "--handler", "handler.py")


def test_it_makes_a_folder_that_is_a_model_directory(make_mar, model: Path) -> None:
    assert make_mar(*FLAGS, cwd=model).code == 0
    done = make_mar("unpack", "echo.mar", "out", cwd=model)
    assert (done.code, done.out, done.err) == (0, "out\n", "")
    assert (model / "out" / "handler.py").read_bytes() == (model / "handler.py").read_bytes()
    assert make_mar("verify", "out", cwd=model).code == 0
    make_mar("unpack", "echo.mar", "out", cwd=model).assert_failed("out: is there already")
    assert make_mar("unpack", "echo.mar", "out", "--force", cwd=model).code == 0


def test_a_limit_is_kept_and_nothing_is_left(make_mar, model: Path) -> None:
    assert make_mar(*FLAGS, cwd=model).code == 0
    done = make_mar("unpack", "echo.mar", "out", "--max-bytes", "100", cwd=model)
    done.assert_failed("unpacks to more than 100 bytes", "--max-bytes")
    assert not [path for path in model.iterdir() if "out" in path.name]
    make_mar("unpack", "echo.mar", "out", "--max-bytes", "0").assert_failed("max-bytes", code=2)


def test_what_is_no_archive_is_one_line(make_mar, tmp_path: Path) -> None:
    make_mar("unpack", tmp_path / "no.mar", tmp_path / "out").assert_failed("no.mar")
    (tmp_path / "text.mar").write_text("hello")
    make_mar("unpack", tmp_path / "text.mar", tmp_path / "out").assert_failed("no zip starts here")
    make_mar("unpack", tmp_path / "text.mar").assert_failed("missing argument", code=2)
