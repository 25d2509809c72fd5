"""The same promises through a real TorchServe: 32 requests in one batch, five of them poisonous."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from makemar.archiver import ArchiveSpec, plan_archive, write_archive
from makemar.serving import TorchServe

pytestmark = pytest.mark.server

HANDLER = '''
from makemar.handlers import BaseHandler, Reply


class Handler(BaseHandler):
    """Rows of numbers; what a header asks for cannot be sent."""

    def encode(self, output, request):
        wanted = request.headers.get("x-wanted")
        if wanted == "loop":
            loop = []
            loop.append(loop)
            return loop
        if wanted == "newline":
            return Reply(output.tolist(), headers={"x-note": "one\\r\\ntwo: three"})
        if wanted == "huge":
            return "x" * 7_000_000
        if wanted == "context":
            self.context.set_response_header(request.index, "x-note", "caf\\u00e9\\n")
        if wanted == "exit":
            raise SystemExit(3)
        return output.tolist()
'''
NETWORK = """
import torch


class Picky(torch.nn.Module):
    def forward(self, x):
        if x.dim() != 2 or torch.isnan(x).any():
            raise ValueError("secret: rows of real numbers only")
        return x * 2
"""
JSON = "application/json"
POISONS = {
    "undecodable": (b"\xff\xfe no numbers", JSON, {}, 400),
    "wrong shape": (b"[[1.0, 2.0], [3.0, 4.0]]", JSON, {}, 500),
    "raises": (b"[NaN, 1.0]", JSON, {}, 500),
    "unserialisable": (b"[1.0, 2.0]", JSON, {"x-wanted": "loop"}, 500),
    "header with a newline": (b"[1.0, 2.0]", JSON, {"x-wanted": "newline"}, 500),
    "header set through the context": (b"[1.0, 2.0]", JSON, {"x-wanted": "context"}, 500),
    "a reply over the limit": (b"[1.0, 2.0]", JSON, {"x-wanted": "huge"}, 500),
    "sys.exit": (b"[1.0, 2.0]", JSON, {"x-wanted": "exit"}, 500),
    "curl -d": (b"[1.0, 2.0]", "application/x-www-form-urlencoded", {}, 400),
}
# A client may not turn a batch into something else.
STRANGE = {"describe": "True", "Explain": "True"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("picky")
    (folder / "handler.py").write_text(HANDLER)
    (folder / "network.py").write_text(NETWORK)
    spec = ArchiveSpec(
        model_name="picky",
        version="1.0",
        handler="handler.py",
        model_file=Path("network.py"),
        base=folder,
    )
    archive = write_archive(plan_archive(spec), folder / "picky.mar")
    with TorchServe([archive], batch_size=32, max_batch_delay=4000) as running:
        yield running


def send_all(server, requests):
    """Send requests at once, each with its own headers; return the replies in order."""

    def send(request):
        body, content_type, headers = request
        return server.inference.predict("picky", body, content_type=content_type, headers=headers)

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(send, requests))


def logged(server, pattern, start=0):
    """Wait until the worker's words, which pass through Java first, hold a pattern."""
    deadline = time.monotonic() + 20
    while not (found := re.findall(pattern, server.model_log()[start:])):
        assert time.monotonic() < deadline, f"{pattern} is not in the log"
        time.sleep(0.05)
    return found


def check(server, poisons):
    """Send 32 requests with poisons at some positions; hold each reply against its promise."""
    requests = [(json.dumps([float(i), 1.0]).encode(), JSON, {}) for i in range(32)]
    requests[1] = (*requests[1][:2], STRANGE)
    for position, kind in poisons.items():
        requests[position] = POISONS[kind][:3]
    pid = server.management.describe("picky")[0].workers[0].pid
    replies = send_all(server, requests)
    for i, reply in enumerate(replies):
        if i in poisons:
            assert reply.status == POISONS[poisons[i]][3], poisons[i]
            problem = reply.json()
            assert set(problem) == {"code", "type", "message", "request_id"}
            assert "secret" not in reply.text
            assert "Traceback" not in reply.text
            assert logged(server, re.escape(problem["request_id"]))
        else:
            assert (reply.status, reply.json()) == (200, [2.0 * i, 2.0])
    # The worker that answered is the worker that was asked.
    assert server.management.describe("picky")[0].workers[0].pid == pid


def test_poisonous_requests_of_every_kind_fail_alone(server):
    check(server, dict(zip(range(3, 30, 3), POISONS, strict=True)))
    assert logged(server, r"batch=32 forwards=(\d+)")


@pytest.mark.parametrize("kind", ["raises", "wrong shape", "unserialisable"])
def test_one_among_32_takes_at_most_11_forwards(server, kind):
    before = len(server.model_log())
    check(server, {17: kind})
    (forwards,) = logged(server, r"batch=32 forwards=(\d+)", before)
    assert int(forwards) <= 11


def test_eight_of_one_kind_fail_alone(server):
    check(server, dict.fromkeys([0, 2, 5, 8, 17, 22, 30, 31], "raises"))
