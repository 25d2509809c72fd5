"""TorchServe's own Python side reads what makemar writes, and the other way round."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.errors import ServingError
from makemar.serving import WorkerPart, WorkerRequest
from makemar.serving.worker_protocol import (
    LoadOrder,
    encode_load,
    encode_predict,
    read_message,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
parts = st.builds(
    WorkerPart, value=st.binary(max_size=50), name=texts, content_type=st.just("image/png")
)
requests = st.builds(
    WorkerRequest,
    parts=st.lists(parts, max_size=3).map(tuple),
    headers=st.dictionaries(texts, texts, max_size=3),
    request_id=texts.filter(bool),
)


class Wire:
    """A socket's end for TorchServe: it reads from bytes."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)

    def recv(self, length: int) -> bytes:
        return self._stream.read(length)

    @property
    def rest(self) -> bytes:
        return self._stream.read()


def understood(data: bytes):
    """What TorchServe reads; it must take all of it."""
    from ts.protocol.otf_message_handler import retrieve_msg

    wire = Wire(data)
    command, message = retrieve_msg(wire)
    assert wire.rest == b""
    return command, message


@given(st.lists(requests, max_size=4))
def test_a_worker_reads_the_batch_that_was_written(batch: list[WorkerRequest]):
    command, rows = understood(encode_predict(batch))
    assert command == b"I"
    assert [row["requestId"].decode() for row in rows] == [r.request_id for r in batch]
    for row, request in zip(rows, batch, strict=True):
        headers = {h["name"].decode(): h["value"].decode() for h in row["headers"]}
        assert headers == dict(request.headers)
        got = [(p["name"], p["contentType"], bytes(p["value"])) for p in row["parameters"]]
        assert got == [(p.name, p.content_type, p.value) for p in request.parts]


@given(texts, texts, st.integers(1, 2**31 - 1), st.none() | st.integers(0, 9), st.booleans())
def test_a_worker_reads_the_order_to_load(
    name: str, folder: str, batch_size: int, gpu_id: int | None, limit: bool
):
    order = LoadOrder(
        model_name=name,
        model_dir=folder,
        handler="h.py:run",
        batch_size=batch_size,
        gpu_id=gpu_id,
        envelope="body",
        limit_max_image_pixels=limit,
    )
    command, message = understood(encode_load(order))
    assert command == b"L"
    assert message["modelName"].decode() == name
    assert message["modelPath"].decode() == folder
    assert message["handler"] == b"h.py:run"
    assert message["batchSize"] == batch_size
    assert message.get("gpu") == gpu_id
    assert message["envelope"] == b"body"
    assert message["limitMaxImagePixels"] is limit


def written(replies: list[object], *, code: int = 200, message: str = "fine", **settings) -> bytes:
    """What TorchServe writes for a batch of replies."""
    from ts.context import Context, RequestProcessor
    from ts.protocol.otf_message_handler import create_predict_response

    context = Context("m", "/", {}, 1, None, "0", True, None, {})
    context.request_processor = [RequestProcessor({}) for _ in replies]
    for name, value in settings.items():
        getattr(context, name)(*value)
    ids = {index: f"id-{index}" for index in range(len(replies))}
    body = None if code != 200 else replies
    return bytes(create_predict_response(body, ids, message, code, context if body else None))


def read(data: bytes, longest: int = 1000):
    stream = io.BytesIO(data)

    def exactly(length: int) -> bytes:
        found = stream.read(length)
        if len(found) < length:
            raise EOFError
        return found

    message = read_message(exactly, longest=longest)
    assert stream.read() == b""
    return message


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=4))
def test_the_replies_of_a_worker_are_read(bodies: list[bytes]):
    message = read(written(bodies))
    assert (message.code, message.text) == (200, "fine")
    assert [p.body for p in message.predictions] == bodies
    assert [p.request_id for p in message.predictions] == [f"id-{i}" for i in range(len(bodies))]
    assert {p.status for p in message.predictions} == {200}


def test_a_reply_s_own_status_type_and_headers_are_read():
    data = written(
        [{"a": 1}],
        set_response_status=(418, "Teapot", 0),
        set_response_content_type=(0, "text/x"),
        set_response_header=(0, "X-Seen", "yes"),
    )
    (prediction,) = read(data).predictions
    assert (prediction.status, prediction.phrase) == (418, "Teapot")
    assert prediction.headers == {"content-type": "text/x", "X-Seen": "yes"}
    assert prediction.body == b'{\n  "a": 1\n}'


def test_a_failure_of_the_whole_batch_is_read():
    message = read(written([1, 2], code=503, message="Prediction failed"))
    assert (message.code, message.text) == (503, "Prediction failed")
    assert [p.status for p in message.predictions] == [503, 503]


def test_a_reply_longer_than_the_server_takes_is_refused_before_it_is_read():
    with pytest.raises(ServingError, match="max_response_size"):
        read(written([b"x" * 100]), longest=99)
    assert len(read(written([b"x" * 100]), longest=100).predictions[0].body) == 100


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!ii", 200, -2),
        struct.pack("!iii", 200, 0, -7),
        struct.pack("!ii", 200, 1) + b"\xff",
        written([b"x"], set_response_status=(200, "Größe, die nicht paßt", 0)),
    ],
)
def test_what_is_no_message_is_told(data: bytes):
    with pytest.raises(ServingError, match="no message of TorchServe's"):
        read(data)
