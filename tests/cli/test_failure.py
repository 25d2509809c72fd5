from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from makemar.cli.failure import report
from makemar.errors import ArchiveError, WorkersFailedError


def told(capsys: pytest.CaptureFixture[str], error: BaseException) -> tuple[int, str]:
    code = report(error, debug=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ArchiveError("x.mar: is bad; pack it again"), "x.mar: is bad; pack it again"),
        (
            WorkersFailedError("why", status=500, url="u", traceback=("Traceback", "  line")),
            "make-mar: why\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "f"),
            "f: Permission denied; check its",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "the output: No space left on device; free",
        ),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "d"), "d: Is a directory; name a file"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "not UTF-8 text"),
        (KeyError("x"), "unexpected KeyError: 'x'; this is a bug in makemar, --debug shows where"),
        (RecursionError(), "unexpected RecursionError; this is a bug"),
        (ArchiveError("\x1b[31mred\r\x07"), "\\x1b[31mred\\r\\x07"),
    ],
)
def test_an_error_is_one_line_and_exit_code_1(capsys, error: BaseException, line: str) -> None:
    code, text = told(capsys, error)
    assert code == 1
    assert text.startswith("make-mar: ")
    assert line in text
    assert text.count("\n") == 1


def test_an_interrupt_is_silent_and_130(capsys) -> None:
    assert told(capsys, KeyboardInterrupt()) == (130, "")


def test_debug_shows_a_workers_own_traceback_too(capsys) -> None:
    lines = ("Traceback (most recent call last):", '  File "handler.py", line 2', "E: \x1b[31mred")
    error = WorkersFailedError("why", status=500, url="u", traceback=lines)
    assert report(error, debug=True) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[-5:-1] == ["In the worker:", *lines[:2], "E: \\x1b[31mred"]
    assert told[-1] == "make-mar: why"


@pytest.mark.parametrize("how", [{"MAKEMAR_DEBUG": "1"}, {}])
def test_debug_shows_the_traceback_before_the_line(make_mar, tmp_path: Path, how) -> None:
    flags = [] if how else ["--debug"]
    done = make_mar("inspect", tmp_path / "no.mar", *flags, env=how)
    assert done.code == 1
    assert done.err.startswith("Traceback")
    assert done.err.splitlines()[-1].startswith("make-mar: ")
    # It may stand before the verb as well.
    assert "Traceback" in make_mar("--debug", "inspect", tmp_path / "no.mar").err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_the_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "makemar.cli", "config", "init"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("make-mar: the output: ")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_reason_for_words(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "makemar.cli", "config", "init"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "")
