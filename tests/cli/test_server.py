"""One real server, and everything that the command line does with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

pytestmark = pytest.mark.server
FLAGS = ("--model-name", "echo", "--handler", "handler.py", "--version")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "a.json").write_text('{"a": 1}')
    (folder / "b.txt").write_text("hello")
    (folder / "c.png").write_bytes(b"not really")
    (folder / "bad.bin").write_bytes(b"bad")
    (folder / "binary.bin").write_bytes(b"binary")
    return folder


def test_serve_tells_where_it_listens_and_what_is_ready(served) -> None:
    [model] = served.started["models"]
    assert (model["name"], model["version"], model["batch_size"]) == ("echo", "1.0", 4)
    assert [worker["status"] for worker in model["workers"]] == ["READY"]
    assert psutil.pid_exists(served.started["pid"])
    for key in ("inference", "management", "metrics"):
        assert served.started["addresses"][key].startswith("http://127.0.0.1:")
    with urlopen(served.started["addresses"]["metrics"] + "/metrics", timeout=10) as page:
        assert b"# HELP" in page.read()


def test_models_list_has_a_line_for_each_version(make_mar, served) -> None:
    done = make_mar("models", "list", env=served.env)
    header, line = [row.split("\t") for row in done.out.splitlines()]
    assert dict(zip(header, line, strict=True)) == {
        "model": "echo",
        "version": "1.0",
        "default": "*",
        "workers": "1/1 READY",
        "batch_size": "4",
        "max_batch_delay": "200 ms",
        "archive": "echo.mar",
    }
    [data] = make_mar("models", "list", "--json", env=served.env).data
    assert (data["name"], data["default"]) == ("echo", True)


def test_models_show_tells_settings_workers_and_queue(make_mar, served) -> None:
    done = make_mar("models", "show", "echo", env=served.env)
    assert "batch_size:       4\n" in done.out
    assert "queue:            0 waiting, room for 100\n" in done.out
    assert ": READY, pid " in done.out
    make_mar("models", "show", "nope", env=served.env).assert_failed("'nope'")
    make_mar("models", "show", "echo", "--version", "9", env=served.env).assert_failed("9")


def test_predict_prints_a_reply_as_it_came(make_mar, served, inputs) -> None:
    done = make_mar("predict", "echo", "b.txt", env=served.env, cwd=inputs)
    assert (done.code, done.err) == (0, "")
    assert done.data == {"name": "echo", "kind": "str", "batch": 1}
    binary = make_mar("predict", "echo", "binary.bin", env=served.env, cwd=inputs)
    assert binary.out.encode(errors="surrogateescape") == b"\xff\x00\xfe"


def test_predict_guesses_the_content_type_from_the_name(make_mar, served, inputs) -> None:
    files = ("a.json", "b.txt", "c.png")
    done = make_mar("predict", "echo", *files, "--json", env=served.env, cwd=inputs)
    assert [item["body"]["kind"] for item in done.data] == ["dict", "str", "bytearray"]
    assert [item["file"] for item in done.data] == list(files)
    options = ("--content-type", "text/plain", "--json")
    done = make_mar("predict", "echo", "-", *options, env=served.env, stdin=b"{}")
    assert done.data[0]["body"]["kind"] == "str"


def test_at_once_the_inputs_share_a_batch(make_mar, served, inputs) -> None:
    files = ("a.json", "b.txt", "c.png", "b.txt")
    done = make_mar("predict", "echo", *files, "--at-once", "--json", env=served.env, cwd=inputs)
    assert [item["body"]["batch"] for item in done.data] == [4, 4, 4, 4]
    assert [item["body"]["kind"] for item in done.data] == ["dict", "str", "bytearray", "str"]


def test_a_bad_input_costs_its_neighbours_nothing_and_exits_1(make_mar, served, inputs) -> None:
    done = make_mar("predict", "echo", "b.txt", "bad.bin", "--at-once", env=served.env, cwd=inputs)
    assert done.code == 1
    assert "==> b.txt: 200, " in done.out
    assert "==> bad.bin: 400, " in done.out
    assert done.err == ("make-mar: bad.bin: the model answered 400\n")
    files = ("b.txt", "bad.bin", "binary.bin")
    done = make_mar("predict", "echo", *files, "--json", env=served.env, cwd=inputs)
    assert done.code == 1
    assert [item["status"] for item in done.data] == [200, 400, 200]
    assert done.data[2]["body_base64"] == "/wD+"


def test_what_cannot_be_asked_is_one_line(make_mar, served, inputs) -> None:
    def ask(*arguments: str, **env: str):
        return make_mar("predict", *arguments, env=served.env | env, cwd=inputs)

    ask("nope", "b.txt").assert_failed("'nope'", "make-mar models list")
    ask("echo", "no.txt").assert_failed("no.txt", "No such file")
    ask("echo", "b.txt", MAKEMAR_TOKEN="wrongkey").assert_failed("refused the key")
    other = {"MAKEMAR_INFERENCE_URL": served.started["addresses"]["metrics"]}
    ask("echo", "b.txt", **other).assert_failed("check the ports")
    with socket.socket() as closed:  # bound and not listening: nobody answers there
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        ask("echo", "b.txt", "--url", url).assert_failed(url)


def test_another_address_never_gets_the_key(make_mar, served, inputs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        arguments = ("predict", "echo", "b.txt", "--url", url, "--timeout", "5")
        with make_mar.start(*arguments, env=served.env, cwd=inputs) as process:
            connection, _ = listener.accept()
            with connection:
                request = connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            process.communicate(timeout=30)
    assert b"POST /predictions/echo" in request
    assert b"authorization" not in request.lower()


def test_a_key_from_the_environment_needs_no_work_dir(make_mar, served, inputs) -> None:
    keys = served.folder / "work" / "key_file.json"
    url = served.started["addresses"]["inference"]
    refused = make_mar("predict", "echo", "b.txt", "--url", url, cwd=inputs)
    refused.assert_failed("no key was sent")
    for env in ({"MAKEMAR_KEY_FILE": str(keys)}, {"MAKEMAR_TOKEN": read_key(keys, "inference")}):
        done = make_mar("predict", "echo", "b.txt", "--url", url, env=env, cwd=inputs)
        assert done.code == 0, done
    env = {"MAKEMAR_TOKEN": read_key(keys, "management")}
    env["MAKEMAR_MANAGEMENT_URL"] = served.started["addresses"]["management"]
    assert make_mar("models", "list", env=env).code == 0


def read_key(keys: Path, api: str) -> str:
    import json

    key: str = json.loads(keys.read_text())[api]["key"]
    return key


def test_a_model_s_life_from_registration_to_removal(make_mar, served, model) -> None:
    def models(*arguments: str):
        return make_mar("models", *arguments, env=served.env)

    assert make_mar(*FLAGS, "2.0", cwd=model).code == 0
    archive = str(model / "echo.mar")
    registered = models("register", archive, "--batch-size", "2", "--json")
    assert registered.code == 0, registered
    assert registered.data["version"] == "2.0"
    models("register", archive).assert_failed("already registered")
    assert models("set-default", "echo", "2.0").err == "echo 2.0 is the default\n"
    models("unregister", "echo").assert_failed("default version")
    scaled = models("scale", "echo", "--workers", "2", "--json")
    assert [worker["status"] for worker in scaled.data["workers"]] == ["READY", "READY"]
    assert models("set-default", "echo", "1.0").code == 0
    assert models("unregister", "echo", "--version", "2.0").code == 0
    assert len(models("list", "--json").data) == 1
    models("register", "nope.mar").assert_failed("nope.mar")


def test_a_handler_that_fails_is_one_line_and_leaves_nothing(make_mar, served, model) -> None:
    (model / "words.py").write_text("NAMES = 1\n")
    assert make_mar(*FLAGS, "3.0", cwd=model).code == 0
    done = make_mar("models", "register", model / "echo.mar", env=served.env)
    done.assert_failed("ImportError: cannot import name 'NAME'", "handler.py line 3")
    debug = make_mar("models", "register", model / "echo.mar", "--debug", env=served.env)
    assert "In the worker:\nTraceback" in debug.err
    assert "    from words import NAME\n" in debug.err
    assert len(make_mar("models", "list", "--json", env=served.env).data) == 1


def test_a_second_server_in_one_folder_is_refused(make_mar, served) -> None:
    done = make_mar("serve", "--port", "0", env=served.env)
    done.assert_failed("make-mar stop")


def test_a_port_in_use_is_one_line(make_mar, served, tmp_path) -> None:
    port = served.started["addresses"]["inference"].rpartition(":")[2]
    done = make_mar("serve", "--port", port, "--work-dir", tmp_path / "work")
    done.assert_failed(f"port {port}", "in use")
    assert not (tmp_path / "work" / "server.json").exists()


def test_a_bad_configuration_is_one_line_with_its_place(make_mar, tmp_path) -> None:
    config = tmp_path / "config.properties"
    config.write_text("# top\njob_queue_size=10 \n")
    done = make_mar("serve", "--config", config, "--work-dir", tmp_path / "work")
    done.assert_failed(f"{config}:2: job_queue_size", "spaces at the end")
    assert not (tmp_path / "work").exists()


def wait_for_line(process: subprocess.Popen[bytes], start: bytes) -> bytes:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(start):
            return line
    raise AssertionError(process.communicate())


def family(pid: int) -> list[psutil.Process]:
    return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]


def test_in_the_foreground_it_serves_until_ctrl_c_and_leaves_nothing(make_mar, model) -> None:
    assert make_mar(*FLAGS, "1.0", cwd=model).code == 0
    port = free_block()
    arguments = ("serve", "echo.mar", "--profile", "production", "--port", str(port))
    with make_mar.start(*arguments, cwd=model) as process:
        line = wait_for_line(process, b"try:").decode().partition(":")[2].strip()
        assert f"http://127.0.0.1:{port}/predictions/echo" in line
        assert read_key(model / ".makemar" / "key_file.json", "inference") not in line
        if shutil.which("curl"):
            command = line.replace("YOUR_FILE", "words.py")
            answer = subprocess.run(
                command, shell=True, cwd=model, capture_output=True, text=True, check=True
            )
            assert '"name": "echo"' in answer.stdout
        # The model API is off in production; everything else works.
        assert make_mar("predict", "echo", "words.py", cwd=model).code == 0
        make_mar("models", "register", "echo.mar", cwd=model).assert_failed("enable_model_api")
        processes = family(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert not psutil.wait_procs(processes, timeout=30)[1]
    assert not (model / ".makemar" / "key_file.json").exists()
    make_mar("stop", cwd=model).assert_failed("no server")


def free_block() -> int:
    """Find a port that is free with the four after it."""
    for port in range(18080, 60000, 7):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for offset in range(5):
                stack.enter_context(socket.create_server(("127.0.0.1", port + offset)))
            return port
    raise AssertionError("no free ports")


@pytest.mark.parametrize("ready", [True, False])
def test_sigterm_stops_it_cleanly_at_any_time(make_mar, tmp_path, ready: bool) -> None:
    arguments = ("serve", "--port", "0", "--work-dir", tmp_path / "work")
    with make_mar.start(*arguments) as process:
        if ready:
            wait_for_line(process, b"grpc_management:")
        else:
            wait_until(lambda: len(family(process.pid)) > 1)
        processes = family(process.pid)
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert not psutil.wait_procs(processes, timeout=30)[1]
    assert not (tmp_path / "work" / "key_file.json").exists()


def test_stopped_from_elsewhere_it_ends_in_order(make_mar, tmp_path) -> None:
    # What `config init` writes, `serve` reads.
    config = tmp_path / "config.properties"
    assert make_mar("config", "init", "--out", config).code == 0
    options = ("--config", config, "--port", "0", "--work-dir", tmp_path / "work")
    with make_mar.start("serve", *options) as process:
        wait_for_line(process, b"grpc_management:")
        assert make_mar("stop", "--work-dir", tmp_path / "work").code == 0
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_server_that_dies_is_told_and_exits_1(make_mar, tmp_path) -> None:
    with make_mar.start("serve", "--port", "0", "--work-dir", tmp_path / "work") as process:
        wait_for_line(process, b"grpc_management:")
        java = next(p for p in family(process.pid) if "java" in p.name())
        os.kill(java.pid, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.startswith(b"make-mar: TorchServe ended by itself with exit code -9")
    assert err.count(b"\n") == 1


def wait_until(condition, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
