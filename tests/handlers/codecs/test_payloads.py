"""However an input is sent, a handler reads the same value."""

import base64
import json

import pytest
import torch

from makemar.handlers import BadRequestError, HandlerSettings, Request
from makemar.handlers.codecs import open_envelope, to_bytes, to_tensor, to_text
from makemar.handlers.errors import PayloadTooLargeError, UnsupportedTypeError

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def opened(row, headers=None, **settings):
    envelope = open_envelope(Request(row, headers=headers), HandlerSettings(**settings))
    assert not envelope.several
    return envelope.values[0]


def part(name, content_type):
    """Headers as TorchServe gives them for a field with a type of its own."""
    return {"Content-Type": "multipart/form-data; boundary=x", name: {"content-type": content_type}}


@pytest.mark.parametrize("row", [{"body": [[1, 2]]}, {"data": bytearray(b"[[1, 2]]")}])
def test_json_is_one_sample_wherever_it_stands(row):
    assert opened(row) == [[1, 2]]


@pytest.mark.parametrize(
    "kind", ["", "application/octet-stream", "Application/JSON; charset=utf-8", "text/x+json"]
)
def test_json_that_the_server_left_alone_is_parsed(kind):
    body = bytearray(b' {"a": [1, NaN]}')
    value = opened({"body": body}, {"body": {"content-type": kind}})
    assert list(value) == ["a"]
    assert value["a"][0] == 1


@pytest.mark.parametrize("kind", ["", "application/json"])
def test_broken_json_says_where_it_breaks(kind):
    headers = {"body": {"content-type": kind}}
    with pytest.raises(BadRequestError, match=r"not valid: .*line 1 column 5"):
        opened({"body": bytearray(b"[1, ")}, headers)


@pytest.mark.parametrize("data", [PICTURE, b"\xff\xd8\xff\xe0" + PICTURE, b"{\xff\xfe", b"plain"])
def test_bytes_that_are_no_json_pass_untouched(data):
    assert opened({"body": bytearray(data)}) == data
    assert opened({"data": bytearray(data)}, FORM) == data
    assert opened({"picture": bytearray(data)}, part("picture", "image/png")) == data


def test_text_stays_text_even_when_it_looks_like_json():
    assert opened({"body": "[sic]"}, {"body": {"content-type": "text/plain"}}) == "[sic]"


def test_several_parts_are_one_sample_by_name():
    row = {
        "image": bytearray(PICTURE),
        "boxes": bytearray(b"[[0, 1]]"),
        "question": "what is it?",
        "mask": {"b64": base64.b64encode(b"mask").decode()},
    }
    assert opened(row, part("image", "image/png")) == {
        "image": PICTURE,
        "boxes": [[0, 1]],
        "question": "what is it?",
        "mask": b"mask",
    }


@pytest.mark.parametrize("row", [{}, {'{"text": "a': bytearray(b'b"}')}, {"[1": bytearray(b"2]")}])
def test_json_that_curl_sent_as_a_form_is_explained(row):
    with pytest.raises(BadRequestError, match="curl -d does this"):
        opened(row, FORM)


def test_an_empty_body_says_so():
    with pytest.raises(BadRequestError, match="has no body"):
        opened({"body": bytearray()})
    with pytest.raises(BadRequestError, match="has no body"):
        opened({"body": bytearray()}, {"Content-Type": "application/json"})


def test_a_compressed_body_is_a_415():
    with pytest.raises(UnsupportedTypeError, match="without Content-Encoding"):
        opened({"body": bytearray(b"\x1f\x8b")}, {"Content-Encoding": "gzip"})
    assert opened({"body": [1]}, {"Content-Encoding": "identity"}) == [1]


@pytest.mark.parametrize(
    "value",
    [
        PICTURE,
        bytearray(base64.b64encode(PICTURE)),
        base64.b64encode(PICTURE).decode(),
        base64.encodebytes(PICTURE).decode(),
        base64.b64encode(PICTURE).decode().rstrip("="),
        "data:image/png;base64," + base64.b64encode(PICTURE).decode(),
        b"data:image/png;base64," + base64.b64encode(PICTURE),
        {"b64": base64.b64encode(PICTURE).decode()},
    ],
)
def test_bytes_are_read_in_every_wrapping(value):
    assert to_bytes(value) == PICTURE


@pytest.mark.parametrize(
    "value", ["no base64!", "ümlaut", "data:,text", [1], 3.5, None, {"b64": 1}, {"b64": "?"}]
)
def test_what_holds_no_bytes_is_a_400(value):
    with pytest.raises(BadRequestError):
        to_bytes(value)


def test_b64_in_a_plain_body_arrives_as_bytes():
    assert opened({"body": {"b64": base64.b64encode(PICTURE).decode()}}) == PICTURE


def test_text_is_read_from_text_and_bytes():
    assert (
        to_text("größe") == to_text("größe".encode()) == to_text(b"\xef\xbb\xbfgr\xc3\xb6\xc3\x9fe")
    )


@pytest.mark.parametrize("value", [b"\xff\xfe", "\ud800", 1, ["a"], None, {}])
def test_what_is_no_text_is_a_400(value):
    with pytest.raises(BadRequestError):
        to_text(value)


@pytest.mark.parametrize("kind", ["application/json", "", "application/octet-stream"])
def test_nesting_without_end_is_a_413(kind):
    deep = bytearray(b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(PayloadTooLargeError, match="deeper than 64 levels"):
        opened({"body": deep}, {"body": {"content-type": kind}})


def nested(depth):
    value = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value, "b": 0}
    return value


def test_nesting_is_counted_in_what_the_server_parsed():
    assert opened({"body": nested(5)}, max_nesting=5) == nested(5)
    with pytest.raises(PayloadTooLargeError, match="deeper than 4 levels"):
        opened({"body": nested(5)}, max_nesting=4)


def test_an_integer_with_a_million_digits_is_a_400():
    body = bytearray(b'{"a": [' + b"9" * 1_000_000 + b"]}")
    with pytest.raises(BadRequestError, match="too many digits"):
        opened({"body": body}, {"Content-Type": "application/json"})


@pytest.mark.parametrize(
    ("row", "headers"),
    [
        ({"body": bytearray(11)}, {}),
        ({"a": bytearray(6), "b": "xxxxx"}, {}),
        ({"body": [1]}, {"Content-Length": "11"}),
    ],
)
def test_a_request_over_the_byte_limit_is_a_413(row, headers):
    with pytest.raises(PayloadTooLargeError, match="11 bytes, the limit is 10"):
        opened(row, headers, max_request_bytes=10)
    opened(row, headers, max_request_bytes=11)


def test_more_instances_than_allowed_are_a_413():
    with pytest.raises(PayloadTooLargeError, match="3 samples, the limit is 2"):
        opened({"body": {"instances": [1, 2, 3]}}, max_samples=2)


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2], [3, 4]],
        json.dumps([[1, 2], [3, 4]]).encode(),
        "[[1, 2], [3, 4]]",
        {"only": [[1, 2], [3, 4]]},
        torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64),
    ],
)
def test_numbers_become_float32(value):
    tensor = to_tensor(value)
    assert tensor.dtype is torch.float32
    assert tensor.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_integers_with_a_type_keep_it():
    assert to_tensor(torch.tensor([1, 2])).dtype is torch.int64
    assert to_tensor([1, 2], dtype=torch.int64).tolist() == [1, 2]
    assert to_tensor([True, False], dtype=torch.bool).tolist() == [True, False]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,), (2, 3, 1)])
def test_every_shape_survives(shape):
    tensor = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    again = to_tensor(tensor.tolist())
    assert torch.equal(again, tensor)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([[1], [1, 2]], "differ in length"),
        ([[1], 2], "differ in length"),
        ([1, [2]], "found list"),
        ([1, "2"], "found str"),
        ([1, None], "found null"),
        (["1"], "found str"),
        ("1.5", "got str"),
        (None, "got NoneType"),
        ({"a": [1], "b": [2]}, "several fields: a, b"),
        (b"\x00\x01", "2 bytes that are none"),
        ([10**400], "outside of what float32 holds"),
    ],
)
def test_what_is_no_array_of_numbers_says_why(value, why):
    with pytest.raises(BadRequestError, match=why):
        to_tensor(value)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1.5], torch.int64),
        ([300], torch.uint8),
        ([-1], torch.uint8),
        ([2], torch.bool),
        (torch.tensor([1.5]), torch.int64),
        (torch.tensor([300]), torch.uint8),
        (torch.tensor([float("nan")]), torch.int32),
    ],
)
def test_no_value_changes_on_its_way_into_an_integer_type(value, dtype):
    with pytest.raises(BadRequestError):
        to_tensor(value, dtype=dtype)


def test_a_shape_is_checked_with_free_dimensions():
    assert to_tensor([[1, 2, 3]], shape=(None, 3)).shape == (1, 3)
    with pytest.raises(BadRequestError, match=r"shape \(any, 2\), got \(1, 3\)"):
        to_tensor([[1, 2, 3]], shape=(None, 2))
