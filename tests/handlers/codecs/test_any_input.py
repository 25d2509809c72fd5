"""Whatever arrives, a codec returns values or one request's own error; nothing else gets out."""

import json
import struct

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from makemar.handlers import HandlerSettings, Reply, Request, RequestError
from makemar.handlers.codecs import Envelope, open_envelope, to_bytes, to_tensor, to_text
from makemar.handlers.codecs.accept import wanted_types
from makemar.handlers.reply import render

TYPES = [
    "",
    "application/json",
    "application/octet-stream",
    "application/x-npy",
    "application/safetensors",
    "text/plain",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
]
# Keys and values that protocols look for, so that broken requests of every protocol come up.
words = st.sampled_from(
    ["instances", "inputs", "b64", "name", "shape", "datatype", "data", "parameters", "outputs"]
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["FP32", "BYTES", "INT64", "UINT64", "BOOL", "BF16", "aGk=", "data:,", "\ud800"]
    )
)
any_json = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(words | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=24,
)
v2_input = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b", ""]) | any_json,
        "shape": st.lists(st.integers(0, 3), max_size=3) | any_json,
        "datatype": st.sampled_from(["FP32", "BYTES", "UINT16", "UINT64", "BF16"]) | any_json,
    },
    optional={
        "data": st.lists(st.integers(-5, 300) | st.text(max_size=3), max_size=6) | any_json,
        "parameters": st.fixed_dictionaries({"binary_data_size": st.integers(-1, 16)}) | any_json,
    },
)
v2_body = st.fixed_dictionaries(
    {"inputs": st.lists(v2_input, min_size=1, max_size=3)},
    optional={"outputs": any_json, "parameters": any_json, "id": any_json},
)
files = st.builds(
    lambda start, rest: start + rest,
    st.sampled_from(
        [b"", b"[", b"{", b"\x93NUMPY", b"\x93NUMPY\x01\x00\x16\x00{'descr': '<f4', ", b"data:"]
        + [struct.pack("<Q", n) + b"{" for n in (1, 2, 8)]
    ),
    st.binary(max_size=64),
)
values = any_json | v2_body | files.map(bytearray)


def opens(row, headers):
    """Open a request and read its values every way; only a RequestError may come out."""
    request = Request(row, headers=headers)
    try:
        envelope = open_envelope(request, HandlerSettings(max_samples=64))
    except RequestError:
        return
    for value in envelope.values:
        for read in (to_tensor, to_bytes, to_text):
            try:
                read(value)
            except RequestError:
                continue
    if envelope.values:
        closes(envelope, [1.5] * len(envelope.values), request)


def closes(envelope, results, request):
    try:
        reply = render(envelope.close(results, request), max_bytes=10**7)
    except RequestError:
        return
    assert isinstance(reply, Reply)
    assert isinstance(reply.body, bytes)


@settings(max_examples=400)
@given(
    row=st.dictionaries(st.sampled_from(["body", "data", "x", "{", ""]), values, max_size=3),
    kind=st.sampled_from(TYPES),
    length=st.none() | st.integers(-1, 80).map(str) | st.text(max_size=3),
    accept=st.none() | st.sampled_from(["*/*", "application/x-npy", "text/plain", "a/b, , ;q="]),
)
@example(row={"body": {"inputs": [{"datatype": "FP32"}]}}, kind="", length=None, accept=None)
def test_any_row_is_values_or_a_request_error(row, kind, length, accept):
    headers = {"Content-Type": kind}
    if length is not None:
        headers["Inference-Header-Content-Length"] = length
    if accept is not None:
        headers["Accept"] = accept
    opens(row, headers)


@given(body=v2_body, binary=st.binary(max_size=40))
def test_any_v2_body_with_any_binary_data(body, binary):
    text = json.dumps(body).encode()
    opens({"body": bytearray(text + binary)}, {"Inference-Header-Content-Length": str(len(text))})


@given(st.text(max_size=60))
def test_any_accept_header_is_understood_or_ignored(accept):
    assert len(set(wanted_types(accept))) == len(wanted_types(accept))


results = st.recursive(
    leaves
    | st.binary(max_size=4)
    | st.sampled_from(
        [
            torch.ones(2),
            torch.ones(1, dtype=torch.bfloat16),
            torch.tensor(1j),
            np.float32(1),
            np.array(["a"]),
            np.array([None]),
            np.datetime64(0, "s"),
            {1, 2},
            object(),
            Reply("x"),
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=400)
@given(
    told=st.lists(results, min_size=1, max_size=3),
    body=st.sampled_from(
        [
            [1],
            {"instances": [1, 2, 3]},
            {"inputs": [{"name": "a", "shape": [1], "datatype": "FP32", "data": [1]}]},
        ]
    ),
    binary=st.booleans(),
    accept=st.sampled_from(
        [
            "*/*",
            "application/json",
            "application/x-npy",
            "application/safetensors",
            "text/plain",
            "application/octet-stream",
            "image/png",
        ]
    ),
)
def test_any_result_is_a_reply_or_a_request_error(told, body, binary, accept):
    if binary and "inputs" in body:
        body = {**body, "parameters": {"binary_data_output": True}}
    request = Request({"body": body}, headers={"Accept": accept})
    envelope = open_envelope(request)
    closes(envelope, told if envelope.several else told[:1], request)


@pytest.mark.parametrize("several", [False, True])
def test_an_envelope_without_a_protocol_closes_over_what_it_gets(several):
    envelope = Envelope((), several=several)
    assert envelope.close([1, 2] if several else [1], Request({})) == ([1, 2] if several else 1)
