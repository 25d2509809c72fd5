"""Streaming through a real TorchServe: parts arrive while the batch still runs."""

import http.client
import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from makemar.archiver import ArchiveSpec, Include, plan_archive, write_archive
from makemar.serving import TorchServe

pytestmark = pytest.mark.server

HANDLER = """
import time

from makemar.handlers import TextGenerator


class Handler(TextGenerator):
    def _publish(self, streamed):
        super()._publish(streamed)
        time.sleep(0.1)
        for _, prompt, row in streamed:
            if prompt.text in BREAKS and len(row.ids) > 4:
                raise BREAKS[prompt.text]

    def encode(self, output, request):
        if output[0].text == "encode":
            raise ValueError("secret: broken in encode")
        return super().encode(output, request)


BREAKS = {
    "break": ValueError("secret: broken on purpose"),
    "exit": SystemExit("secret: a library left"),
    "lost": RuntimeError("CUDA error: secret: an illegal memory access"),
}
"""
CONFIG = """
batchSize: 3
maxBatchDelay: 3000
handler:
  tokenizer: bytes.json
  max_length: 64
  max_new_tokens: 20
"""


@pytest.fixture(scope="module")
def server(networks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("generator")
    for name in ("causal.py", "bytes.json"):
        shutil.copyfile(networks / name, folder / name)
    (folder / "handler.py").write_text(HANDLER)
    (folder / "model-config.yaml").write_text(CONFIG)
    spec = ArchiveSpec(
        model_name="generator",
        version="1.0",
        handler="handler.py",
        model_file=Path("causal.py"),
        include=(Include(source=Path("bytes.json")),),
        config_file=Path("model-config.yaml"),
        base=folder,
    )
    archive = write_archive(plan_archive(spec), folder / "generator.mar")
    with TorchServe([archive]) as running:
        yield running


def post(server, body):
    """Send a body; return the reply, when its first part came, and when its last one did."""
    address = urlsplit(server.inference.url)
    key = json.loads(server.key_file.read_text())["inference"]["key"]
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    connection.request(
        "POST",
        "/predictions/generator",
        json.dumps(body),
        {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
    )
    reply = connection.getresponse()
    first = reply.read1(65536)
    began = time.monotonic()
    data = first + reply.read()
    connection.close()
    return reply, data, began, time.monotonic()


def test_parts_arrive_one_after_the_other_beside_a_whole_answer_and_an_error(server):
    bodies = [
        {"text": "the cat", "seed": 1, "stream": True},
        {"text": "the cat", "seed": 1},
        {"text": "<poison>", "stream": True},
    ]
    with ThreadPoolExecutor(3) as pool:
        streamed, whole, failed = pool.map(lambda body: post(server, body), bodies)
    reply, data, began, ended = streamed
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["transfer-encoding"] == "chunked"
    assert ended - began > 0.5
    events = [json.loads(line[6:]) for line in data.decode().strip().split("\n\n")]
    assert len(events) >= 5
    assert whole[0].status == 200
    answer = json.loads(whole[1])
    assert "".join(event.get("text", "") for event in events) == answer["text"]
    assert events[-1]["finish_reason"] == "length"
    assert failed[0].status == 500
    assert json.loads(failed[1])["type"] == "ModelError"
    assert "batch=3" in server.model_log()


def test_a_stream_that_breaks_ends_with_an_error_and_its_neighbour_is_whole(server):
    bodies = [{"text": text, "stream": True} for text in ("break", "the cat")]
    with ThreadPoolExecutor(2) as pool:
        broken, whole = pool.map(lambda body: post(server, body), bodies)
    ends = [json.loads(data.decode().strip().split("\n\n")[-1][6:]) for _, data, *_ in
            (broken, whole)]  # fmt: skip
    assert [end["finish_reason"] for end in ends] == ["error", "length"]
    assert "secret" not in ends[0]["error"]
    answer = json.loads(post(server, {"text": "the cat"})[1])
    parts = [json.loads(line[6:]) for line in whole[1].decode().strip().split("\n\n")]
    assert "".join(part.get("text", "") for part in parts) == answer["text"]


def ask_beside(server, kind):
    """Stream a text that breaks beside one that is streamed too, and one that is not."""
    bodies = [
        {"text": kind, "stream": True},
        {"text": "the cat", "stream": True},
        {"text": "the cat"},
    ]
    with ThreadPoolExecutor(3) as pool:
        # A reply without its last part would run into the client's timeout.
        replies = list(pool.map(lambda body: post(server, body), bodies))
    assert [reply.headers["transfer-encoding"] for reply, *_ in replies[:2]] == ["chunked"] * 2
    assert not any(b"secret" in data for _, data, *_ in replies)
    texts = [data.decode().strip().split("\n\n") for _, data, *_ in replies]
    return [[json.loads(part.removeprefix("data: ")) for part in parts] for parts in texts]


def wait_for(what, condition):
    """Wait until a condition holds; what a worker writes reaches the log through Java."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("break", "broken on purpose"), ("exit", "a library left"), ("encode", "broken in encode")],
)
def test_a_stream_ends_however_it_fails_and_its_neighbours_get_theirs(server, kind, reason):
    before = len(server.model_log())
    broken, whole, (answer,) = ask_beside(server, kind)
    assert broken[0]["text"]
    told = broken[-1]
    assert told.get("finish_reason") == "error" or told["code"] == 500
    assert (whole[-1]["finish_reason"], answer["tokens"]) == ("length", 20)
    assert "".join(part.get("text", "") for part in whole) == answer["text"]
    wait_for("request id in the log", lambda: told["request_id"] in server.model_log()[before:])
    wait_for("reason in the log", lambda: reason in server.model_log()[before:])


def test_a_streamed_prompt_that_never_began_is_an_error_of_its_own(server):
    reply, data, _, _ = post(server, {"text": "", "stream": True})
    assert reply.status == 400
    assert json.loads(data)["type"] == "BadRequestError"


def test_the_worker_serves_on_after_a_stream(server):
    for _ in range(2):
        reply, data, _, _ = post(server, {"text": "a", "max_new_tokens": 2})
        assert reply.status == 200
        assert json.loads(data)["tokens"] == 2


def test_streams_end_when_the_device_is_lost_and_a_new_worker_takes_over(server):
    before = server.management.describe("generator")[0].workers[0].pid
    broken, neighbour, (answer,) = ask_beside(server, "lost")
    assert [parts[-1]["finish_reason"] for parts in (broken, neighbour)] == ["error", "error"]
    assert broken[0]["text"]
    assert (answer["code"], answer["type"]) == (503, "DeviceLostError")

    def replaced():
        worker = server.management.describe("generator")[0].workers[0]
        return worker.pid not in (before, -1) and worker.status == "READY"

    wait_for("new worker", replaced)
    assert post(server, {"text": "a"})[0].status == 200
