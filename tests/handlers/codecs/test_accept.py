"""`Accept` chooses how an answer is written; what the handler chose itself stays."""

import io

import numpy as np
import pytest
import torch
from safetensors.torch import load as load_tensors

from makemar.handlers import BaseHandler, Reply
from makemar.handlers.codecs.accept import wanted_types
from makemar.handlers.testing import ask, load

JSON, NPY, TENSORS, TEXT = (
    "application/json",
    "application/x-npy",
    "application/safetensors",
    "text/plain",
)


class Told(BaseHandler):
    """Answers every sample with what a test told it to answer."""

    told = None

    def forward(self, batch):
        return list(range(len(batch)))

    def encode(self, output, request):
        return type(self).told


def answer(result, accept, body=0):
    Told.told = result
    headers = {} if accept is None else {"Accept": accept}
    return ask(Told(), [{"body": body}], headers=[headers])[0]


@pytest.mark.parametrize(
    ("accept", "best"),
    [
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/*", TEXT),
        (f"{JSON};q=0.5, {NPY}", NPY),
        (f"{JSON}, {NPY};q=0.9", JSON),
        (f"{NPY}, */*", NPY),
        (f"*/*, {NPY};q=0.2", JSON),
        (f"{JSON};q=0, */*", NPY),
        ("Application/Safetensors ; Q=1.0", TENSORS),
        ("text/html, application/xhtml+xml, */*;q=0.8", JSON),
        (f"{JSON};q=oops, {TEXT};q=0.1", TEXT),
        (f"{TEXT}; charset=utf-8; q=1, {JSON};q=0.3", TEXT),
        ("nonsense", JSON),
        ("", JSON),
    ],
)
def test_the_best_type_that_can_be_written_wins(accept, best):
    assert wanted_types(accept)[0] == best


@pytest.mark.parametrize("accept", ["image/png", f"{JSON};q=0", "*/*;q=0", "text/html"])
def test_a_client_that_takes_nothing_of_ours_gets_a_406(accept):
    assert wanted_types(accept) == ()
    got = answer([1.5], accept)
    assert got.status == 406
    assert "accept application/json" in got.json()["message"]


@pytest.mark.parametrize("accept", [None, "*/*", JSON, f"{NPY};q=0.5, {JSON}"])
def test_json_is_what_clients_get_that_do_not_ask_otherwise(accept):
    got = answer({"a": torch.tensor([1.5])}, accept)
    assert (got.headers["content-type"], got.json()) == (JSON, {"a": [1.5]})


@pytest.mark.parametrize("result", [torch.ones(2, 3), np.ones((2, 3), "f4")])
@pytest.mark.parametrize("accept", [NPY, "application/npy"])
def test_an_array_is_written_as_a_numpy_file(result, accept):
    got = answer(result, accept)
    assert got.headers["content-type"] == accept
    array = np.load(io.BytesIO(got.body))
    assert (array.shape, array.dtype) == ((2, 3), np.float32)


def test_several_samples_are_stacked_whatever_protocol_they_came_in():
    got = answer(torch.ones(3), NPY, {"instances": [0, 0]})
    assert np.load(io.BytesIO(got.body)).shape == (2, 3)
    got = answer({"a": torch.ones(3), "b": np.int64(1)}, TENSORS, {"instances": [0, 0]})
    tensors = load_tensors(got.body)
    assert {name: list(t.shape) for name, t in tensors.items()} == {"a": [2, 3], "b": [2]}


def test_a_nan_that_json_cannot_hold_travels_as_an_array():
    assert answer([float("nan")], JSON).status == 500
    assert np.isnan(np.load(io.BytesIO(answer([float("nan")], NPY).body))).all()


@pytest.mark.parametrize(
    "result", ["text", {"a": 1}, {"a": torch.ones(1)}, [1, "a"], None, [[1], []]]
)
def test_what_is_no_array_is_not_written_as_one(result):
    assert answer(result, NPY).status == 406
    fallback = answer(result, f"{NPY}, */*;q=0.1")
    assert fallback.status == 200
    assert fallback.headers["content-type"].partition(";")[0] in (JSON, TENSORS, TEXT)


def test_text_is_plain_unless_json_is_wanted():
    for accept in (None, "*/*", TEXT, "text/*, */*;q=0.1", "*/*;q=0.5"):
        got = answer("größe", accept)
        assert got.headers["content-type"] == "text/plain; charset=utf-8"
        assert got.body.decode() == "größe"
    got = answer("größe", JSON)
    assert (got.headers["content-type"], got.json()) == (JSON, "größe")


def test_json_can_be_had_as_plain_text():
    got = answer({"a": 1}, TEXT)
    assert (got.headers["content-type"], got.body) == ("text/plain; charset=utf-8", b'{"a":1}')


@pytest.mark.parametrize("accept", [None, NPY, "image/webp", f"{JSON};q=1"])
def test_what_the_handler_chose_stays(accept):
    got = answer(Reply(b"PNG", status=201, content_type="image/png"), accept)
    assert (got.status, got.headers["content-type"], got.body) == (201, "image/png", b"PNG")
    assert answer(b"raw", accept).body == b"raw"


def test_a_reply_for_one_of_several_samples_is_the_handlers_error():
    got = answer(Reply("a"), None, {"instances": [0, 0]})
    assert got.status == 500
    assert "one of several samples" in got.json()["message"]


def test_the_default_handler_keeps_the_type_of_its_outputs(model_dir, doubler):
    handler = load(BaseHandler, model_dir, model=doubler)
    as_array, as_json = ask(handler, [{"body": [1, 2]}] * 2, headers=[{"Accept": NPY}, {}])
    array = np.load(io.BytesIO(as_array.body))
    assert (array.dtype, array.tolist()) == (np.float32, [2.0, 4.0])
    assert as_json.json() == [2.0, 4.0]
