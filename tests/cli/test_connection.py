from __future__ import annotations

import json
from pathlib import Path

from makemar.cli.connection import read_state


def test_without_a_server_every_verb_says_so_in_one_line(make_mar, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    for verb in (["models", "list"], ["models", "show", "m"], ["predict", "m", "f"], ["stop"]):
        make_mar(*verb, cwd=tmp_path).assert_failed("no server", ".makemar", "make-mar serve")


def write_state(work_dir: Path, **changes: object) -> None:
    work_dir.mkdir()
    addresses = dict.fromkeys(
        ("inference", "management", "metrics", "grpc_inference", "grpc_management"), "http://x:1"
    )
    state: dict[str, object] = {
        "work_dir": str(work_dir),
        "pid": 2**22 + 1,  # more than Linux gives out
        "started": 1.0,
        "addresses": addresses,
        "key_file": str(work_dir / "key_file.json"),
        "tmp_dir": str(work_dir / "tmp"),
    }
    (work_dir / "server.json").write_text(json.dumps(state | changes))


def test_a_server_that_has_ended_is_not_asked(make_mar, tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    write_state(work_dir)
    assert read_state(work_dir) is None
    done = make_mar("models", "list", "--work-dir", work_dir)
    done.assert_failed("has ended", "make-mar serve")


def test_a_damaged_state_is_one_line(make_mar, tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    write_state(work_dir, addresses=None)
    make_mar("models", "list", "--work-dir", work_dir).assert_failed("server.json", "damaged")


def test_a_token_on_the_command_line_is_no_flag(make_mar) -> None:
    make_mar("models", "list", "--token", "secret").assert_failed("--token", code=2)
