import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from makemar.errors import ArchiveError, ServingError
from makemar.serving import ServerAddresses, ServerState, stop_server
from makemar.serving.processes import start_time, terminate_group

ADDRESSES = ServerAddresses(
    inference="http://127.0.0.1:1",
    management="http://127.0.0.1:2",
    metrics="http://127.0.0.1:3",
    grpc_inference="127.0.0.1:4",
    grpc_management="127.0.0.1:5",
)


def make_state(folder: Path, *, tmp_dir: Path | None = None, keys: bool = True) -> ServerState:
    """The state of a server that ended long ago: nobody has its process id."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return ServerState(
        work_dir=folder,
        pid=child.pid,
        started=1.0e9,
        addresses=ADDRESSES,
        key_file=folder / "key_file.json" if keys else None,
        tmp_dir=tmp_dir or folder / "tmp",
        model_store=folder / "model_store" if keys else None,
    )


@pytest.mark.parametrize("keys", [True, False])
def test_a_state_is_read_as_it_was_written(tmp_path: Path, keys: bool):
    state = make_state(tmp_path, keys=keys)
    state.write()
    assert ServerState.read(tmp_path) == state
    assert [path.name for path in tmp_path.iterdir()] == ["server.json"]


def test_a_folder_without_a_server_is_told(tmp_path: Path):
    with pytest.raises(ServingError, match="no server was started in"):
        ServerState.read(tmp_path)
    with pytest.raises(ServingError, match="no server was started in"):
        stop_server(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x"}'])
def test_a_damaged_state_is_told(tmp_path: Path, text: str):
    (tmp_path / "server.json").write_text(text)
    with pytest.raises(ServingError, match="is damaged"):
        ServerState.read(tmp_path)


@pytest.mark.parametrize("pid", [0, 1, -1, -5, 2**80, True, 7.5, None])
def test_a_process_id_that_cannot_be_a_servers_is_damage(tmp_path: Path, pid: object):
    make_state(tmp_path).write()
    path = tmp_path / "server.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": pid}))
    for read in (ServerState.read, stop_server):
        with pytest.raises(ServingError, match="is damaged"):
            read(tmp_path)


@pytest.mark.parametrize("pid", [-5, 0, 1])
def test_no_group_is_ended_that_cannot_be_a_servers(pid: int):
    with pytest.raises(ValueError, match="no server's process"):
        terminate_group(pid, start_time(1) or 0.0, grace=0)


def test_a_process_that_has_the_id_of_an_ended_server_is_left_alone(tmp_path: Path):
    state = make_state(tmp_path)
    data = {"pid": os.getpid(), "started": (start_time(os.getpid()) or 0) - 3600}
    state.write()
    path = tmp_path / "server.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **data}))
    assert not ServerState.read(tmp_path).alive
    assert stop_server(tmp_path) is False


def test_what_an_ended_server_left_is_removed(tmp_path: Path):
    state = make_state(tmp_path)
    state.write()
    (tmp_path / "tmp" / "models").mkdir(parents=True)
    (tmp_path / "logs").mkdir()
    (tmp_path / "key_file.json").write_text("secret")
    assert stop_server(tmp_path) is False
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "server.lock"}


def test_a_state_from_elsewhere_does_not_choose_what_is_removed(tmp_path: Path):
    work, precious = tmp_path / "work", tmp_path / "precious"
    work.mkdir()
    precious.mkdir()
    state = make_state(work, tmp_dir=precious)
    state.write()
    path = work / "server.json"
    data = json.loads(path.read_text())
    (precious / "thesis.txt").write_text("years")
    path.write_text(json.dumps({**data, "key_file": str(precious / "thesis.txt")}))
    assert stop_server(work) is False
    assert (precious / "thesis.txt").read_text() == "years"
    assert not path.exists()


def test_clients_of_a_state_have_its_addresses_and_show_no_key(tmp_path: Path):
    state = make_state(tmp_path)
    assert state.management().url == ADDRESSES.management
    assert state.inference().url == ADDRESSES.inference


def test_an_archive_comes_within_reach_by_name_or_by_url(
    tmp_path: Path, zip_up: Callable[..., Path]
):
    archive = zip_up("one", "def handle(data, context):\n    return data\n")
    state = make_state(tmp_path)
    (tmp_path / "model_store").mkdir()
    assert state.add_to_store(archive) == "one.mar"
    assert (tmp_path / "model_store" / "one.mar").samefile(archive)
    assert make_state(tmp_path, keys=False).add_to_store(archive) == f"file://{archive}"
    with pytest.raises(ArchiveError):
        state.add_to_store(tmp_path / "missing.mar")


def test_an_archive_never_takes_the_place_of_another_in_the_store(
    tmp_path: Path, zip_up: Callable[..., Path]
):
    source = "def handle(data, context):\n    return data\n"
    first, second = zip_up("one", source), zip_up("one", source, version="2.0")
    state, store = make_state(tmp_path), tmp_path / "model_store"
    store.mkdir()
    assert state.add_to_store(first) == "one.mar"
    assert state.add_to_store(second) == "one-2.mar"
    assert state.add_to_store(first) == "one.mar"
    assert state.add_to_store(second) == "one-2.mar"
    assert (store / "one.mar").samefile(first)
    assert (store / "one-2.mar").samefile(second)


def test_a_file_of_the_same_name_in_the_store_stays(tmp_path: Path, zip_up: Callable[..., Path]):
    archive = zip_up("one", "def handle(data, context):\n    return data\n")
    store = tmp_path / "model_store"
    store.mkdir()
    (store / "one.mar").write_text("downloaded")
    assert make_state(tmp_path).add_to_store(archive) == "one-2.mar"
    assert (store / "one.mar").read_text() == "downloaded"
