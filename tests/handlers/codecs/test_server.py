"""One batch in a real TorchServe, every request in another protocol: each gets its own answer."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from makemar.archiver import ArchiveSpec, plan_archive, write_archive
from makemar.serving import KeyFile, TorchServe

pytestmark = pytest.mark.server

HANDLER = """
from makemar.handlers import BaseHandler

class Handler(BaseHandler):
    def assemble(self, results, request, *, several):
        self.context.set_response_header(request.index, "x-batch", str(len(self.running)))
        return super().assemble(results, request, several=several)
"""
NETWORK = """
import torch

class Doubler(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return x * self.factor
"""
BINARY = "Inference-Header-Content-Length"
INPUT = {"name": "x", "datatype": "FP32", "shape": [1, 2]}
OUTPUT = {"name": "output_0", "datatype": "FP32", "shape": [1, 2]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("codecs")
    (folder / "network.py").write_text(NETWORK)
    (folder / "handler.py").write_text(HANDLER)
    torch.save({"factor": torch.tensor(2.0)}, folder / "weights.pth")
    spec = ArchiveSpec(
        model_name="doubler",
        version="1.0",
        handler="handler.py",
        model_file=Path("network.py"),
        serialized_file=Path("weights.pth"),
        base=folder,
    )
    archive = write_archive(plan_archive(spec), folder / "packed.mar")
    with TorchServe([archive], batch_size=len(REQUESTS), max_batch_delay=2000) as running:
        yield running


def npy(values):
    file = io.BytesIO()
    np.save(file, np.array(values, dtype=np.float32))
    return file.getvalue()


def multipart(**parts):
    """A form as curl -F sends it: with a file name, so that a part's type counts."""
    lines = [
        f'--cut\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n'
        f"Content-Type: {kind}\r\n\r\n".encode()
        + body
        + b"\r\n"
        for name, (kind, body) in parts.items()
    ]
    return b"".join(lines) + b"--cut--\r\n"


def v2_binary():
    head = {**INPUT, "parameters": {"binary_data_size": 8}}
    asked = {"inputs": [head], "parameters": {"binary_data_output": True}}
    text = json.dumps(asked).encode()
    return text + np.array([7, 8], "<f4").tobytes(), {BINARY: str(len(text))}


def as_json(reply):
    return reply.json()


def as_v2_binary(reply):
    length = int(reply.headers[BINARY])
    (output,) = json.loads(reply.body[:length])["outputs"]
    return output["name"], np.frombuffer(reply.body[length:], "<f4").tolist()


def as_npy(reply):
    return np.load(io.BytesIO(reply.body)).tolist()


def as_tensors(reply):
    return {name: tensor.tolist() for name, tensor in load(reply.body).items()}


# name: (content type, body, headers, how to read the reply, what it must say, status)
REQUESTS = {
    "json": ("application/json", b"[1, 2]", {}, as_json, [2.0, 4.0]),
    "json without its type": ("application/octet-stream", b"[2, 3]", {}, as_json, [4.0, 6.0]),
    "v1": (
        "application/json",
        b'{"instances": [[1, 0], [3, 4]]}',
        {},
        as_json,
        {"predictions": [[2.0, 0.0], [6.0, 8.0]]},
    ),
    "v2": (
        "application/json",
        json.dumps({"id": "mine", "inputs": [{**INPUT, "data": [5, 6]}]}).encode(),
        {},
        as_json,
        {
            "model_name": "doubler",
            "model_version": "1.0",
            "id": "mine",
            "outputs": [{**OUTPUT, "data": [10.0, 12.0]}],
        },
    ),
    "v2 binary": (
        "application/octet-stream",
        *v2_binary(),
        as_v2_binary,
        ("output_0", [14.0, 16.0]),
    ),
    "npy": (
        "application/x-npy",
        npy([9, 10]),
        {"Accept": "application/x-npy"},
        as_npy,
        [18.0, 20.0],
    ),
    "safetensors": (
        "application/octet-stream",
        save({"x": torch.tensor([1.5, 2.5])}),
        {"Accept": "application/safetensors, */*;q=0.1"},
        as_tensors,
        {"output": [3.0, 5.0]},
    ),
    "form": (
        "application/x-www-form-urlencoded",
        urlencode({"data": "[11, 12]"}).encode(),
        {},
        as_json,
        [22.0, 24.0],
    ),
    "multipart": (
        "multipart/form-data; boundary=cut",
        multipart(x=("application/json", b"[13, 14]")),
        {},
        as_json,
        [26.0, 28.0],
    ),
    "npy in a form": (
        "multipart/form-data; boundary=cut",
        multipart(data=("application/octet-stream", npy([15, 16]))),
        {"Accept": "text/plain"},
        lambda reply: reply.text,
        "[30.0,32.0]",
    ),
}
REFUSED = {
    "curl -d": ("application/x-www-form-urlencoded", b"[1, 2]", {}, 400, "curl -d does this"),
    "broken json": ("application/json", b"[1, 2", {}, 400, "not valid"),
    "deep json": ("application/json", b"[" * 100_000, {}, 413, "nested deeper"),
    "long integer": ("application/json", b"9" * 100_000, {}, 400, "too many digits"),
    "ragged": ("application/json", b"[[1], [2, 3]]", {}, 400, "differ in length"),
    "not acceptable": ("application/json", b"[1, 2]", {"Accept": "image/png"}, 406, "image/png"),
    "empty": ("application/json", b"", {}, 400, "no body"),
}


def send_at_once(server, requests):
    """Send all requests at the same time; return the replies by name."""

    def send(request):
        kind, body, headers = request[:3]
        return server.inference.predict("doubler", body, content_type=kind, headers=headers)

    with ThreadPoolExecutor(len(requests)) as pool:
        return dict(zip(requests, pool.map(send, requests.values()), strict=True))


def test_every_protocol_of_one_batch_gets_its_own_answer(server):
    replies = send_at_once(server, REQUESTS)
    for name, (*_, read, expected) in REQUESTS.items():
        reply = replies[name]
        assert reply.status == 200, (name, reply.body)
        assert read(reply) == expected, name
        assert reply.headers["x-batch"] == str(len(REQUESTS)), name


def test_what_cannot_be_read_spoils_nothing_for_its_neighbours(server):
    good = dict(list(REQUESTS.items())[: len(REQUESTS) - len(REFUSED)])
    replies = send_at_once(server, {**good, **REFUSED})
    for name, (*_, read, expected) in good.items():
        assert read(replies[name]) == expected, name
    for name, (*_, status, why) in REFUSED.items():
        reply = replies[name]
        assert reply.status == status, (name, reply.body)
        assert why in reply.json()["message"], name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("v1/models/doubler:predict", "v1"),
        ("v2/models/doubler/infer", "v2"),
        ("v2/models/doubler/infer", "v2 binary"),
    ],
)
def test_the_protocols_own_paths_answer_alike(server, path, name):
    import requests

    kind, body, headers, _, expected = REQUESTS[name]
    token = KeyFile.read(server.key_file).inference
    reply = requests.post(
        f"{server.inference.url}/{path}",
        data=body,
        headers={**headers, "Content-Type": kind, "Authorization": f"Bearer {token}"},
        timeout=30,
    )
    assert reply.status_code == 200, reply.text
    if name == "v2 binary":
        data = reply.content[int(reply.headers[BINARY]) :]
        assert np.frombuffer(data, "<f4").tolist() == expected[1]
    else:
        assert reply.json() == expected
