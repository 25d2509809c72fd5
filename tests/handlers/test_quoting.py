"""A message quotes a little of what a client sent: enough to find it, however much there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.handlers import BaseHandler, Request, RequestError
from makemar.handlers.codecs import open_envelope, to_tensor
from makemar.handlers.generation_options import read_options
from makemar.handlers.quoting import list_names, quote
from makemar.handlers.testing import ask
from makemar.handlers.text import read_text

LONG = "k" * 100_000
MANY = {f"field {i:04}": 1 for i in range(5000)}
INPUT = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}


def v2(**changes):
    value = {"inputs": [{**INPUT, **changes}]}
    return open_envelope(Request({"body": value})).values


ASKED = {
    "parts of a text": lambda: read_text({LONG: 1, LONG + "2": 2}, max_characters=9),
    "many parts of a text": lambda: read_text(MANY, max_characters=9),
    "fields of an array": lambda: to_tensor({LONG: 1, "other": 2}),
    "many fields of an array": lambda: to_tensor(MANY),
    "dimensions of an array": lambda: to_tensor([[[1]]] * 2, shape=[3]),
    "a v2 datatype": lambda: v2(datatype=LONG),
    "a v2 datatype of many parts": lambda: v2(datatype=[[LONG] * 9] * 1000),
    "a v2 name": lambda: v2(name=LONG, shape=[]),
    "a v2 name without data": lambda: v2(name=LONG, data=None),
    "a v2 shape": lambda: v2(shape=[2**31 - 1] * 64),
    "a v2 size": lambda: v2(parameters={"binary_data_size": LONG}),
    "an option of many parts": lambda: read_options(
        {"top_k": [LONG] * 1000}, max_new_tokens=1, most_new_tokens=1
    ),
}


@pytest.mark.parametrize("what", ASKED)
def test_a_message_names_at_most_a_few_things_of_100_characters_each(what):
    with pytest.raises(RequestError) as caught:
        ASKED[what]()
    message = caught.value.message
    assert "k" * 101 not in message
    assert len(message) < 700
    # Not just the end of a longer message that was cut off.
    assert not message.endswith("…")


def test_an_output_that_does_not_exist_is_named_briefly():
    handler = BaseHandler()
    handler.model = lambda batch: batch
    body = {"inputs": [INPUT], "outputs": [{"name": LONG}, {"name": "other"}]}
    (answer,) = ask(handler, [{"body": body}])
    assert answer.status == 400
    assert len(answer.json()["message"]) < 300


def test_the_first_names_are_listed_in_order_with_how_many_more_there_are():
    assert list_names(["b", "a"]) == "a, b"
    assert list_names([]) == "none"
    assert list_names([f"n{i}" for i in range(9)]) == "n0, n1, n2, n3, n4, … (4 more)"


def test_what_is_short_is_quoted_whole():
    for value in ("FP31", 12, None, ["FP32"], 1.5, True):
        assert quote(value) == repr(value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_a_quotation_is_one_short_text_whatever_is_quoted(value):
    assert 0 < len(quote(value)) <= 101


def test_a_large_request_is_not_written_down_to_quote_the_first_of_it():
    written = []

    class Item:
        def __repr__(self):
            written.append(self)
            return "item"

    assert quote([Item()] * 200_000).startswith("[item, item")
    assert len(written) < 10
