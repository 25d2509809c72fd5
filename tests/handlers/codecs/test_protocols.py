"""KServe v1 and Open Inference Protocol v2: many samples in, each protocol's own reply out."""

import base64
import json
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from makemar.handlers import BadRequestError, BaseHandler, HandlerSettings, Request
from makemar.handlers.codecs import open_envelope
from makemar.handlers.errors import PayloadTooLargeError
from makemar.handlers.testing import ask, load

BINARY = "Inference-Header-Content-Length"
NUMPY = {
    "BOOL": "?",
    "UINT8": "u1",
    "UINT16": "u2",
    "UINT32": "u4",
    "INT8": "i1",
    "INT16": "i2",
    "INT32": "i4",
    "INT64": "i8",
    "FP16": "f2",
    "FP32": "f4",
    "FP64": "f8",
}


def opened(body, headers=None, **settings):
    return open_envelope(Request({"body": body}, headers=headers), HandlerSettings(**settings))


def v2(*inputs, **more):
    return {"inputs": list(inputs), **more}


def named(name, datatype, shape, data, **more):
    return {"name": name, "datatype": datatype, "shape": shape, "data": data, **more}


def with_binary(head, data):
    """A body of JSON and binary data, and the header that says where one ends."""
    text = json.dumps(head).encode()
    return bytearray(text + data), {BINARY: str(len(text))}


def tensor_request(name, datatype, array):
    """The same array as a JSON input, and as an input with binary data."""
    shape = list(array.shape)
    in_json = v2(named(name, datatype, shape, array.reshape(-1).tolist()))
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    parameters = {"binary_data_size": len(data)}
    head = {"name": name, "datatype": datatype, "shape": shape, "parameters": parameters}
    return in_json, *with_binary(v2(head), data)


# -- v1 ------------------------------------------------------------------------------------------


def test_instances_are_samples_with_their_bytes_opened():
    encoded = {"b64": base64.b64encode(b"picture").decode()}
    envelope = opened({"instances": [encoded, {"image": encoded, "k": 1}, [1]]})
    assert envelope.several
    assert envelope.values == [b"picture", {"image": b"picture", "k": 1}, [1]]


@pytest.mark.parametrize("instances", [None, 3, "text", {"a": 1}])
def test_instances_must_be_a_list(instances):
    with pytest.raises(BadRequestError, match=r"instances is .*, not a list"):
        opened({"instances": instances})


# -- v2, what comes in ---------------------------------------------------------------------------


@given(
    st.sampled_from(sorted(NUMPY)).flatmap(
        lambda kind: st.tuples(
            st.just(kind),
            arrays.arrays(
                np.dtype(NUMPY[kind]),
                arrays.array_shapes(max_dims=3, max_side=4, min_side=1),
                elements={"allow_nan": False} if NUMPY[kind][0] == "f" else None,
            ),
        )
    )
)
def test_json_and_binary_mean_the_same_samples(typed):
    datatype, array = typed
    in_json, body, headers = tensor_request("x", datatype, array)
    for envelope in (opened(in_json), opened(body, headers)):
        assert envelope.several
        assert len(envelope.values) == len(array)
        for row, expected in zip(envelope.values, array, strict=True):
            np.testing.assert_array_equal(row.numpy(), expected)


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=6))
def test_binary_bytes_are_read_element_by_element(elements):
    data = b"".join(struct.pack("<I", len(e)) + e for e in elements)
    head = {
        "name": "x",
        "datatype": "BYTES",
        "shape": [len(elements)],
        "parameters": {"binary_data_size": len(data)},
    }
    assert list(opened(*with_binary(v2(head), data)).values) == elements


def test_bytes_in_json_are_text_or_base64():
    assert list(opened(v2(named("x", "BYTES", [2], ["a", "ß"]))).values) == ["a", "ß"]
    pairs = opened(v2(named("x", "BYTES", [2, 2], ["a", "b", "c", "d"])))
    assert list(pairs.values) == [["a", "b"], ["c", "d"]]
    given = named("x", "BYTES", [1], ["YWI="], parameters={"content_type": "base64"})
    assert list(opened(v2(given)).values) == [b"ab"]


def test_bfloat16_is_read_from_binary_and_json():
    tensor = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    data = tensor.view(torch.uint8).numpy().tobytes()
    head = {"name": "x", "datatype": "BF16", "shape": [2], "parameters": {"binary_data_size": 4}}
    for envelope in (
        opened(*with_binary(v2(head), data)),
        opened(v2(named("x", "BF16", [2], [1.5, -2]))),
    ):
        assert torch.equal(torch.stack(list(envelope.values)), tensor)


def test_several_inputs_are_a_dict_per_sample():
    envelope = opened(
        v2(named("a", "INT64", [2, 2], [[1, 2], [3, 4]]), named("b", "BYTES", [2], ["x", "y"]))
    )
    assert [
        {k: getattr(v, "tolist", lambda v=v: v)() for k, v in s.items()} for s in envelope.values
    ] == [
        {"a": [1, 2], "b": "x"},
        {"a": [3, 4], "b": "y"},
    ]


def test_several_binary_inputs_follow_each_other():
    parameters = [{"binary_data_size": 8}, {"binary_data_size": 2}]
    heads = [
        {"name": "a", "datatype": "FP32", "shape": [2], "parameters": parameters[0]},
        named("middle", "INT8", [2], [7, 8]),
        {"name": "b", "datatype": "BOOL", "shape": [2], "parameters": parameters[1]},
    ]
    data = struct.pack("<ff", 1.5, 2.5) + b"\x00\x01"
    first, second = opened(*with_binary(v2(*heads), data)).values
    assert [first[k].item() for k in ("a", "middle", "b")] == [1.5, 7, False]
    assert [second[k].item() for k in ("a", "middle", "b")] == [2.5, 8, True]


def test_other_json_with_inputs_is_left_alone():
    assert opened({"inputs": ["a text"]}).values == [{"inputs": ["a text"]}]
    assert opened({"inputs": []}).values == [{"inputs": []}]


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ([named("x", "FP31", [1], [1])], "datatype is 'FP31', not one of BOOL"),
        ([named("x", ["FP32"], [1], [1])], "not one of"),
        ([named("", "FP32", [1], [1])], "a name of its own"),
        ([named("x", "FP32", [1], [1]), named("x", "FP32", [1], [1])], "a name of its own"),
        ([named("x", "FP32", [], [1])], "the batch first"),
        ([named("x", "FP32", [-1], [1])], "0 or more"),
        ([named("x", "FP32", [True], [1])], "0 or more"),
        ([named("x", "FP32", [2], [1])], r"needs 2 elements, data has 1"),
        ([named("x", "FP32", [1], None)], "data must be a list"),
        ([named("x", "FP32", [1], ["1"])], "found str"),
        ([named("x", "INT8", [1], [200])], "outside of what int8 holds"),
        ([named("x", "UINT16", [1], [70000])], "outside of what UINT16 holds"),
        ([named("x", "UINT32", [1], [-1])], "outside of what UINT32 holds"),
        ([named("x", "INT64", [1], [1.5])], "found float"),
        ([named("x", "BYTES", [1], [1])], "must be text"),
        ([named("x", "FP32", [1], [1]), named("y", "FP32", [2], [1, 2])], "first dimension"),
        ([named("x", "FP32", [1], [1]), "y"], "not an object"),
        ([named("x", "FP32", [1], [1], parameters={"shared_memory_region": "r"})], "shared"),
        ([named("x", "FP32", [1], [1], parameters={"binary_data_size": 4})], "0 bytes"),
    ],
)
def test_a_broken_v2_request_says_what_is_wrong(inputs, why):
    with pytest.raises(BadRequestError, match=why):
        opened(v2(*inputs))


@pytest.mark.parametrize("length", ["", "x", "-1", "0", "99999", "²", "1" * 30])
def test_a_wrong_header_length_is_a_400(length):
    body, _ = with_binary(v2(named("x", "FP32", [1], [1])), b"")
    with pytest.raises(BadRequestError, match=BINARY):
        opened(body, {BINARY: length})


def test_binary_data_must_fit_its_inputs_exactly():
    head = {"name": "x", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}
    with pytest.raises(BadRequestError, match="1 bytes of binary data belong to no input"):
        opened(*with_binary(v2(head), bytes(5)))
    with pytest.raises(BadRequestError, match="3 bytes of binary data are left"):
        opened(*with_binary(v2(head), bytes(3)))
    short = {**head, "parameters": {"binary_data_size": 3}}
    with pytest.raises(BadRequestError, match="no whole number of FP32"):
        opened(*with_binary(v2(short), bytes(3)))
    text = {**head, "datatype": "BYTES"}
    with pytest.raises(BadRequestError, match="inside of an element"):
        opened(*with_binary(v2(text), b"\xff\x00\x00\x00"))


def test_a_batch_of_nothing_much_costs_nothing():
    with pytest.raises(PayloadTooLargeError, match="60000 samples, the limit is 1024"):
        opened(v2(named("x", "FP32", [60_000, 0], [])))
    for datatype in ("FP32", "BYTES"):
        with pytest.raises(BadRequestError, match="no elements in its shape"):
            opened(v2(named("x", datatype, [1, 2_000_000_000, 0], [])))
    with pytest.raises(PayloadTooLargeError, match="2 samples, the limit is 1"):
        opened(v2(named("x", "FP32", [2], [1, 2])), max_samples=1)


# -- v2, what goes out ---------------------------------------------------------------------------


class Answers(BaseHandler):
    """Gives what a test told it to give, one result per sample."""

    told = ()

    def forward(self, batch):
        return list(range(len(batch)))

    def encode(self, output, request):
        return type(self).told[output]


def reply(results, body, headers=None):
    Answers.told = results
    (answer,) = ask(Answers(), [{"body": body}], headers=[headers or {}])
    return answer


def asking(count, **more):
    return v2(named("x", "FP32", [count], [0.0] * count), **more)


def test_predictions_answer_instances():
    assert reply([1, {"a": [2.5]}], {"instances": [0, 0]}).json() == {
        "predictions": [1, {"a": [2.5]}]
    }
    assert reply([b"\x00"], {"instances": [0]}).json() == {"predictions": [{"b64": "AA=="}]}


@pytest.mark.parametrize(
    ("results", "output"),
    [
        ([torch.ones(2), torch.zeros(2)], ("FP32", [2, 2], [1.0, 1.0, 0.0, 0.0])),
        ([np.int8(1), np.int8(2)], ("INT8", [2], [1, 2])),
        ([1, 2], ("INT64", [2], [1, 2])),
        ([[0.5], [1]], ("BYTES", [2], ["[0.5]", "[1]"])),
        ([[0.5], [1.5]], ("FP64", [2, 1], [0.5, 1.5])),
        (["a", "ß"], ("BYTES", [2], ["a", "ß"])),
        ([b"a", b"b"], ("BYTES", [2], ["a", "b"])),
        ([b"\xff", b"b"], ("BYTES", [2], ["/w==", "Yg=="])),
        ([{"cat": 0.5}, {"dog": 1.0}], ("BYTES", [2], ['{"cat":0.5}', '{"dog":1.0}'])),
        ([torch.ones(1), torch.ones(2)], ("BYTES", [2], ["[1.0]", "[1.0,1.0]"])),
        ([None, None], ("BYTES", [2], ["null", "null"])),
    ],
)
def test_results_become_the_output_that_fits_them(results, output):
    (got,) = reply(results, asking(2)).json()["outputs"]
    assert (got["datatype"], got["shape"], got["data"]) == output
    assert got["name"] == "output_0"


def test_a_dict_of_arrays_becomes_one_output_each():
    results = [{"a": torch.ones(2), "b": torch.tensor(i)} for i in range(2)]
    outputs = reply(results, asking(2)).json()["outputs"]
    assert [(o["name"], o["datatype"], o["shape"]) for o in outputs] == [
        ("a", "FP32", [2, 2]),
        ("b", "INT64", [2]),
    ]
    chosen = reply(results, asking(2, outputs=[{"name": "b"}])).json()["outputs"]
    assert [(o["name"], o["data"]) for o in chosen] == [("b", [0, 1])]
    refused = reply(results, asking(2, outputs=[{"name": "c"}]))
    assert refused.status == 400
    assert "no output 'c'; this model gives a, b" in refused.json()["message"]


def test_a_lone_output_takes_the_name_that_was_asked_for():
    got = reply([1.5], asking(1, outputs=[{"name": "scores"}], id="42")).json()
    assert got["id"] == "42"
    assert got["outputs"] == [{"name": "scores", "shape": [1], "datatype": "FP64", "data": [1.5]}]


@pytest.mark.parametrize(
    "wish",
    [
        {"parameters": {"binary_data_output": True}},
        {"outputs": [{"name": "output_0", "parameters": {"binary_data": True}}]},
    ],
)
@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/octet-stream"])
def test_binary_outputs_follow_the_json(wish, accept):
    answer = reply([torch.ones(3), torch.zeros(3)], asking(2, **wish), {"Accept": accept})
    assert answer.headers["content-type"] == "application/octet-stream"
    length = int(answer.headers[BINARY.lower()])
    (output,) = json.loads(answer.body[:length])["outputs"]
    assert output["parameters"] == {"binary_data_size": 24}
    assert "data" not in output
    assert np.frombuffer(answer.body[length:], "<f4").tolist() == [1.0] * 3 + [0.0] * 3


def test_binary_text_carries_its_lengths():
    body = asking(2, parameters={"binary_data_output": True})
    answer = reply(["a", "bc"], body)
    length = int(answer.headers[BINARY.lower()])
    assert answer.body[length:] == b"\x01\x00\x00\x00a\x02\x00\x00\x00bc"


# -- Through a model -----------------------------------------------------------------------------


def test_a_batch_of_protocols_answers_each_in_its_own(model_dir, doubler):
    handler = load(BaseHandler, model_dir, model=doubler)
    _, body, headers = tensor_request("x", "FP32", np.array([[1.0, 2.0]], "f4"))
    answers = ask(
        handler,
        [
            {"body": [1.0, 2.0]},
            {"body": {"instances": [[1, 2], [3, 4]]}},
            {"body": v2(named("x", "FP32", [1, 2], [5, 6]), id="mine")},
            {"body": body},
            {"body": v2(named("x", "FP32", [1, 3], [5, 6]))},
        ],
        headers=[{}, {}, {}, headers, {}],
    )
    assert [answer.status for answer in answers] == [200, 200, 200, 200, 400]
    assert answers[0].json() == [2.0, 4.0]
    assert answers[1].json() == {"predictions": [[2.0, 4.0], [6.0, 8.0]]}
    output = {"name": "output_0", "datatype": "FP32", "shape": [1, 2]}
    assert answers[2].json()["outputs"] == [{**output, "data": [10.0, 12.0]}]
    assert answers[2].json()["id"] == "mine"
    assert answers[3].json()["outputs"] == [{**output, "data": [2.0, 4.0]}]
