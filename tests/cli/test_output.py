from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from makemar.cli.output import format_size, write_table


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (14_213_453, "14.2 MB"), (3 * 10**9, "3.0 GB")],
)
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    assert format_size(size) == text


def test_in_a_pipe_a_table_is_separated_by_tabs(capsys) -> None:
    write_table(("a", "b"), [(1, "x\ty"), (2, "[red]z")])
    assert capsys.readouterr().out == "a\tb\n1\tx\\ty\n2\t[red]z\n"


def on_a_terminal(*command: str | Path, cwd: Path) -> str:
    """Run a command with a terminal for stdout and stderr and return what it shows."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(word) for word in command], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # Linux: the other side has closed
            pass
        os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode()


def test_on_a_terminal_a_table_is_drawn_and_names_are_no_markup(tmp_path: Path) -> None:
    code = "from makemar.cli.output import write_table; write_table(('a', 'b'), [(1, '[red]z')])"
    shown = on_a_terminal(sys.executable, "-c", code, cwd=tmp_path)
    assert "\t" not in shown
    assert "[red]z" in shown


def test_on_a_terminal_a_long_copy_shows_how_far_it_is(model: Path) -> None:
    with (model / "big.pt").open("wb") as stream:
        stream.truncate(300 << 20)
    flags = ["--model-name", "echo", "--version", "1", "--handler", "handler.py"]
    flags += ["--serialized-file", "big.pt"]
    shown = on_a_terminal(sys.executable, "-m", "makemar.cli", *flags, cwd=model)
    assert re.search(r"/31\d\.\d MB", shown)  # of the bar; makemar's own handlers go along
    assert "record-sha256=" in shown
