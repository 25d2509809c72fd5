from __future__ import annotations

import json
from pathlib import Path

import pytest

from makemar.cli.connection import read_state
from makemar.serving import ServerAddresses, ServerState


def test_without_a_server_every_verb_says_so_in_one_line(make_mar, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    for verb in (["models", "list"], ["models", "show", "m"], ["predict", "m", "f"], ["stop"]):
        make_mar(*verb, cwd=tmp_path).assert_failed("no server", ".makemar", "make-mar serve")


def write_state(work_dir: Path) -> Path:
    """Write the state of a server that ended long ago, as a server writes it; return the file."""
    work_dir.mkdir()
    ServerState(
        work_dir=work_dir,
        pid=2**22 + 1,  # more than Linux gives out
        started=1.0,
        addresses=ServerAddresses(
            inference="http://127.0.0.1:1",
            management="http://127.0.0.1:2",
            metrics="http://127.0.0.1:3",
            grpc_inference="127.0.0.1:4",
            grpc_management="127.0.0.1:5",
        ),
        key_file=work_dir / "key_file.json",
        tmp_dir=work_dir / "tmp",
        model_store=work_dir / "model_store",
    ).write()
    return work_dir / "server.json"


def test_a_server_that_has_ended_is_not_asked(make_mar, tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    write_state(work_dir)
    assert read_state(work_dir) is None
    done = make_mar("models", "list", "--work-dir", work_dir)
    done.assert_failed("has ended", "make-mar serve")


@pytest.mark.parametrize(
    "damage",
    [
        {"addresses": None},
        {"addresses": {"inference": "http://127.0.0.1:1"}},
        {"pid": "many"},
        {"started": None},
        {"tmp_dir": 5},
    ],
    ids=str,
)
def test_a_damaged_state_is_one_line(make_mar, tmp_path: Path, damage: dict[str, object]) -> None:
    work_dir = tmp_path / "work"
    path = write_state(work_dir)
    whole = json.loads(path.read_text())
    assert ServerState.read(work_dir).pid == whole["pid"]  # nothing else is wrong with it
    path.write_text(json.dumps(whole | damage))
    make_mar("models", "list", "--work-dir", work_dir).assert_failed("server.json", "damaged")


def test_a_token_on_the_command_line_is_no_flag(make_mar) -> None:
    make_mar("models", "list", "--token", "secret").assert_failed("--token", code=2)
