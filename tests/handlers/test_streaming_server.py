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
        for prompt, row in streamed:
            if prompt.text == "break" and len(row.ids) > 4:
                raise ValueError("secret: broken on purpose")
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
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
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


def test_the_worker_serves_on_after_a_stream(server):
    for _ in range(2):
        reply, data, _, _ = post(server, {"text": "a", "max_new_tokens": 2})
        assert reply.status == 200
        assert json.loads(data)["tokens"] == 2
