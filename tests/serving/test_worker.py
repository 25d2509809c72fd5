"""Real backend workers of TorchServe, without its Java."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from makemar.archiver import read_archive
from makemar.configs import ServerConfig
from makemar.errors import ArchiveError, ServingError
from makemar.serving import TorchServe, Worker, WorkerError, WorkerPart, WorkerRequest

pytestmark = pytest.mark.server

ZipUp = Callable[..., Path]
WaitFor = Callable[..., None]

HANDLER = """
import json
import os
import sys
import time

from ts.handler_utils.utils import send_intermediate_predict_response

print("imported in", os.getcwd())


class Handler:
    def initialize(self, context):
        self.properties = dict(context.system_properties)
        if context.model_yaml_config.get("handler") == "hang":
            self.hang()

    def handle(self, data, context):
        return [self.answer(row, index, len(data), context) for index, row in enumerate(data)]

    def answer(self, row, index, size, context):
        body = row.get("body")
        body = bytes(body) if isinstance(body, bytearray) else body
        if context.get_request_header(index, "describe"):
            return {"described": True, "row": row}
        if body == b"where":
            return {"cwd": os.getcwd(), "path": sys.path, "argv": sys.argv,
                    "environ": dict(os.environ), "properties": self.properties}
        if body == b"parts":
            return "wrong"
        if "left" in row:
            types = [context.get_request_header(index, n)["content-type"] for n in row]
            kinds = [type(value).__name__ for value in row.values()]
            return {"names": list(row), "types": types, "kinds": kinds}
        if body == b"refuse":
            context.set_response_status(422, "Unprocessable", index)
            context.set_response_content_type(index, "application/json")
            context.set_response_header(index, "X-Why", "asked to")
            return json.dumps({"message": "no picture"})
        if body == b"raise":
            raise ValueError("asked to")
        if body == b"die":
            print("these are my last words")
            os._exit(9)
        if body == b"kill":
            os.kill(os.getpid(), 9)
        if body == b"circle":
            circle = []
            circle.append(circle)
            return circle
        if body == b"hang":
            self.hang()
        if body == b"garbage":
            print("no message at all")
            context.cl_socket.sendall(b"garbage " * 100)
            time.sleep(30)
        if body == b"child":
            import subprocess
            return str(subprocess.Popen(["sleep", "600"]).pid)
        if body == b"large":
            return b"x" * 7_000_000
        if body in (b"stream", b"cut"):
            ids = {index: context.get_request_id(index)}
            for part in (b"one ", b"two "):
                send_intermediate_predict_response({index: part}, ids, "part", 200, context)
            if body == b"cut":
                context.get_response_headers(index).clear()
            return b"three"
        return {"size": size, "kind": type(body).__name__, "id": context.get_request_id(index)}

    def hang(self):
        while True:
            time.sleep(0.1)
"""


def ask(worker: Worker, *bodies: bytes):
    return worker.predict([WorkerRequest.from_body(body) for body in bodies])


@pytest.fixture(scope="module")
def worker(zip_up: ZipUp) -> Iterator[Worker]:
    with Worker(zip_up("talker", HANDLER), batch_size=4) as running:
        yield running


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of this test's own, to see what stays there."""
    folder = Path(tempfile.mkdtemp(prefix="mmt-", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir()), "something stayed"
    shutil.rmtree(folder)


def test_a_batch_gets_one_reply_each_in_order(worker: Worker):
    replies = ask(worker, b"a", b"refuse", b"c")
    assert [reply.status for reply in replies] == [200, 422, 200]
    assert replies[0].json() == {"size": 3, "kind": "bytes", "id": replies[0].request_id}
    assert replies[1].phrase == "Unprocessable"
    assert replies[1].headers["Content-Type"] == "application/json"
    assert replies[1].headers["x-why"] == "asked to"
    assert replies[1].json() == {"message": "no picture"}
    assert not replies[1].ok
    assert not replies[1].failure
    assert len({reply.request_id for reply in replies}) == 3


def test_a_request_of_several_parts_comes_as_torchserve_sends_a_form(worker: Worker):
    parts = (
        WorkerPart(name="left", value=b"{}", content_type="application/json"),
        WorkerPart(name="right", value=b"words", content_type="text/plain"),
        WorkerPart(name="file", value=b"\x00", content_type="image/png"),
    )
    (reply,) = worker.predict([WorkerRequest(parts=parts, request_id="mine")])
    assert reply.request_id == "mine"
    assert reply.json() == {
        "names": ["left", "right", "file"],
        "types": ["application/json", "text/plain", "image/png"],
        "kinds": ["dict", "str", "bytearray"],
    }


def test_the_worker_runs_where_and_as_the_server_would_run_it(worker: Worker):
    (reply,) = ask(worker, b"where")
    seen = reply.json()
    folder = seen["cwd"]
    assert seen["properties"]["model_dir"] == folder
    assert seen["properties"]["batch_size"] == 4
    assert seen["properties"]["gpu_id"] is None
    assert seen["path"][0] == folder  # before the standard library
    assert not [path for path in seen["path"] if path.endswith("/ts")]
    assert seen["argv"][1:4:2] == ["--sock-type", "--sock-name"]
    assert seen["environ"]["TMPDIR"] != tempfile.gettempdir()
    assert f"imported in {folder}" in worker.log()


def test_a_real_server_starts_the_same_worker(
    worker: Worker, zip_up: ZipUp, monkeypatch: pytest.MonkeyPatch
):
    def shape(seen: dict) -> dict:
        """What must be equal, with the folders of each run left out."""
        folder, argv = seen["cwd"], seen["argv"]
        argv[argv.index("--sock-name") + 1] = ".ts.sock"
        return {
            "argv": argv,
            "path": [path.replace(folder, "MODEL") for path in seen["path"]],
            "properties": {k: v.replace(folder, "MODEL") if k == "model_dir" else v
                           for k, v in seen["properties"].items()},
            "ts": {k: v for k, v in seen["environ"].items() if k.startswith("TS_")},
        }  # fmt: skip

    monkeypatch.delenv("PYTHONPATH", raising=False)
    with TorchServe([zip_up("talker", HANDLER)], batch_size=4, stop_timeout=0) as server:
        there = server.inference.predict("talker", b"where").json()
    assert shape(ask(worker, b"where")[0].json()) == shape(there)


def test_a_describe_job_is_sent_as_the_server_sends_it(worker: Worker):
    assert worker.describe().json() == {"described": True, "row": {}}


def test_the_parts_of_a_stream_are_gathered_beside_whole_replies(worker: Worker):
    whole, streamed = ask(worker, b"x", b"stream")
    assert whole.json()["size"] == 2
    assert streamed.parts == (b"one ", b"two ", b"three")
    assert streamed.body == b"one two three"
    assert not streamed.cut_off


def test_a_stream_that_nothing_ends_is_told(worker: Worker):
    (reply,) = ask(worker, b"cut")
    assert reply.cut_off


def test_a_handler_that_raises_costs_the_batch_and_its_exception_is_told(worker: Worker):
    replies = ask(worker, b"a", b"raise")
    assert [reply.status for reply in replies] == [503, 503]
    for reply in replies:
        assert reply.failure.startswith("Prediction failed: ValueError: asked to (handler.py line")
    assert ask(worker, b"a")[0].ok


def test_an_empty_batch_is_no_work(worker: Worker):
    assert worker.predict([]) == ()


def test_what_the_server_would_never_send_is_refused_and_the_worker_lives(worker: Worker):
    with pytest.raises(ServingError, match="5 requests are more than a batch of 4"):
        ask(worker, *[b"a"] * 5)
    with pytest.raises(ServingError, match="2 requests of one batch have the id 'x'"):
        worker.predict([WorkerRequest(request_id="x")] * 2)
    with pytest.raises(ServingError, match="runs already"):
        worker.start()
    assert ask(worker, b"a")[0].ok


def test_the_times_of_a_cold_start_are_known(worker: Worker):
    times = worker.times
    assert times.unpack_ms is not None
    assert times.unpack_ms > 0
    assert times.start_ms > 100  # torch alone takes longer
    assert times.load_ms > 0
    assert times.warm_up_ms is None  # this handler has none
    assert times.total_ms > times.start_ms


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"die", ("exit code 9", "these are my last words")),
        (b"kill", ("SIGKILL", "batch of 1")),
        (b"circle", ("exit code 1", "ValueError: Circular reference")),
        (b"garbage", ("no message of TorchServe's",)),
        (b"large", ("a body of 7000000 bytes", "max_response_size")),
        (b"hang", ("within 1 s", "handler.py line", "in hang", "give it longer")),
    ],
)
def test_a_worker_that_breaks_tells_why_and_leaves_nothing(
    zip_up: ZipUp, temporary: Path, body: bytes, words: tuple[str, ...]
):
    worker = Worker(zip_up("breaker", HANDLER), response_timeout=1)
    with worker:
        assert ask(worker, b"a")[0].ok
        pid = worker.pid
        with pytest.raises(ServingError) as caught:
            ask(worker, body)
        assert not psutil.pid_exists(pid)
        for word in words:
            assert word in str(caught.value)
        assert "\n" not in str(caught.value)
        with pytest.raises(ServingError, match="is not running"):
            ask(worker, b"a")
    assert "Torch worker started." in worker.log()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import nopackage_x", ("No module named 'nopackage_x'", "handler.py line 1")),
        ("raise SystemExit(3)", ("exit code 3",)),
        (
            "class H:\n  def initialize(self, c):\n    raise RuntimeError('no weights')\n"
            "  def handle(self, d, c): ...",
            ("RuntimeError: no weights", "handler.py line 3, in initialize"),
        ),
        ("def handle(data, ctx):\n  if data is None: open('/nope/x')", ("FileNotFoundError",)),
    ],
)
def test_a_model_that_does_not_load_tells_the_worker_s_own_exception(
    zip_up: ZipUp, temporary: Path, source: str, words: tuple[str, ...]
):
    worker = Worker(zip_up("unloadable", source))
    with pytest.raises(WorkerError) as caught:
        worker.start()
    for word in ("while it loaded the model", *words):
        assert word in str(caught.value)
    if "Error" in words[0]:
        assert caught.value.traceback[-1].startswith(words[0])
    assert caught.value.output


def test_a_module_that_shadows_the_worker_s_own_is_told(zip_up: ZipUp, temporary: Path):
    archive = zip_up("shadow", HANDLER, **{"yaml.py": "raise ImportError('not that yaml')"})
    with pytest.raises(WorkerError, match=r"before it listened: ImportError: not that yaml \(yaml"):
        Worker(archive).start()


def test_a_model_that_loads_for_ever_is_ended(zip_up: ZipUp, temporary: Path):
    archive = zip_up("sleeper", HANDLER, config="startupTimeout: 1\nhandler: hang\n")
    with pytest.raises(WorkerError, match=r"did not load the model within 1 s: .*, in hang"):
        Worker(archive).start()


def test_what_a_model_started_ends_with_its_worker(zip_up: ZipUp, temporary: Path):
    with Worker(zip_up("parent", HANDLER)) as worker:
        child = int(ask(worker, b"child")[0].text)
        assert psutil.pid_exists(child)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_settings_come_from_the_archive_and_the_server_s_configuration(
    zip_up: ZipUp, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SECRET_KEY", "x")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    archive = zip_up("configured", HANDLER, config="batchSize: 3\nresponseTimeout: 60\n")
    config = ServerConfig(decode_input_request=False, service_envelope="body")
    with Worker(archive, config=config, environ={"MODEL_KEY": "y"}) as worker:
        assert worker.batch_size == 3
        # The envelope hands the handler bodies in place of rows, which this one cannot take.
        (reply,) = ask(worker, b"where")
        assert "AttributeError" in reply.failure
    with Worker(archive, environ={"MODEL_KEY": "y"}) as worker:
        environ = ask(worker, b"where")[0].json()["environ"]
    assert environ["MODEL_KEY"] == "y"
    assert "SECRET_KEY" not in environ
    assert "/nowhere" not in environ["PYTHONPATH"]


def test_a_directory_is_used_as_it_is_and_stays_as_it_was(
    zip_up: ZipUp, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))  # no Java
    monkeypatch.delenv("JAVA_HOME", raising=False)
    folder = tmp_path / "outer" / "talker"
    with zipfile.ZipFile(zip_up("talker", HANDLER)) as archive:
        archive.extractall(folder)
    before = sorted(folder.rglob("*"))
    with Worker(folder.parent) as worker:
        assert ask(worker, b"where")[0].json()["cwd"] == str(folder)
        assert worker.times.unpack_ms is None
    assert sorted(folder.rglob("*")) == before


def test_a_function_in_a_folder_of_the_archive_is_found_by_its_path(tmp_path: Path):
    path = tmp_path / "pathed.mar"
    model = {"modelName": "pathed", "handler": "inner/h.py:serve"}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("MAR-INF/MANIFEST.json", json.dumps({"model": model}))
        archive.writestr(
            "inner/h.py", "def serve(data, context):\n    return ['hi'] * len(data or ())"
        )
    with Worker(path) as worker:
        assert ask(worker, b"x")[0].text == "hi"


def test_an_asynchronous_handler_is_run_as_one(zip_up: ZipUp):
    source = """
import asyncio

class Handler:
    def initialize(self, context): ...

    async def handle(self, data, context):
        await asyncio.sleep(0.01)
        return [len(data)] * len(data)
"""
    archive = zip_up("later", source, config="asyncCommunication: true\nbatchSize: 1\n")
    with Worker(archive) as worker:
        assert ask(worker, b"x")[0].text == "1"
        assert ask(worker, b"y")[0].text == "1"


def test_an_interrupted_owner_leaves_no_worker(zip_up: ZipUp, wait_for: WaitFor, tmp_path: Path):
    script = tmp_path / "owner.py"
    script.write_text(
        "import sys, time\n"
        "from makemar.serving import Worker, WorkerRequest\n"
        "worker = Worker(sys.argv[1])\n"
        "worker.start()\n"
        "print(worker.pid, flush=True)\n"
        "worker.predict([WorkerRequest.from_body(b'hang')])\n"
    )
    short = Path(tempfile.mkdtemp(prefix="mmt-", dir="/tmp"))
    owner = subprocess.Popen(
        [sys.executable, str(script), str(zip_up("orphan", HANDLER))],
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(short)},
    )
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(pid))
    wait_for(lambda: not list(short.iterdir()))
    short.rmdir()


def test_what_no_worker_can_run_alone_is_refused(zip_up: ZipUp, temporary: Path, tmp_path: Path):
    archive = zip_up("parallel", HANDLER, config="parallelType: tp\n")
    with pytest.raises(ServingError, match="torchrun"):
        Worker(archive).start()
    config = ServerConfig(install_py_dep_per_model=True)
    needy = Worker(zip_up("needy", HANDLER, requirements="x"), config=config)
    with pytest.raises(ServingError, match="install_py_dep_per_model"):
        needy.start()
    with pytest.raises(ArchiveError):
        Worker(tmp_path / "no.mar").start()
    sly = tmp_path / "sly.mar"
    shutil.copy(archive, sly)
    with zipfile.ZipFile(sly, "a") as file:
        file.writestr("../evil.py", "")
    with pytest.raises(ArchiveError):
        Worker(sly).start()
    assert read_archive(archive).manifest.model_name == "parallel"
