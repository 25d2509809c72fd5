"""What counts as the same answer."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.serving import Reply
from makemar.serving.comparison import find_difference, find_reply_difference
from makemar.serving.corruption import corrupted_copies

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def told(a: object, b: object, tolerance: float = 1e-4) -> str:
    return find_difference(json.dumps(a).encode(), json.dumps(b, indent=1).encode(), tolerance)


def npy(*numbers: float, dtype: str = "float32") -> bytes:
    stream = io.BytesIO()
    numpy.save(stream, numpy.array(numbers, dtype=dtype))
    return stream.getvalue()


@given(values)
def test_json_is_itself_however_it_is_written(value: object):
    assert told(value, value, 0.0) == ""


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e-2))
def test_a_number_may_be_off_by_the_tolerance_and_no_more(number: float, tolerance: float):
    unit = tolerance * max(1.0, abs(number))
    assert told(number, number + 0.9 * unit, tolerance) == ""
    assert "instead of" in told(number, number + 1.2 * unit, tolerance)


@pytest.mark.parametrize(
    ("expected", "got", "difference"),
    [
        ({"a": [1.0, 2.0]}, {"a": [1.0, 2.5]}, "$.a[1] is 2.5 instead of 2.0"),
        ({"a": 1}, {"b": 1}, '$ has other keys: ["a", "b"]'),
        ([1.0, 2.0], [1.0], "$ has 1 entries instead of 2"),
        (100000, 100001, "$ is 100001 instead of 100000"),
        (1, True, "$ is true instead of 1"),
        ("cat", "dog", '$ is "dog" instead of "cat"'),
        (math.nan, 1.0, "$ is 1.0 instead of NaN"),
        (math.inf, -math.inf, "$ is -Infinity instead of Infinity"),
        ([{}], [[]], "$[0] is [] instead of {}"),
        ("x" * 200, "", f'$ is "" instead of "{"x" * 59}…'),
    ],
)
def test_a_difference_names_its_place(expected: object, got: object, difference: str):
    assert told(expected, got) == difference


def test_whole_numbers_are_exact_but_one_written_as_a_float_is_a_float():
    assert told(1, 1.00001) == ""
    assert told(281, 282, 0.5) != ""


def test_arrays_are_compared_number_by_number():
    assert find_difference(npy(1, 2, math.nan), npy(1, 2.0001, math.nan), 1e-4) == ""
    wrong = find_difference(npy(1, 2), npy(1, 3), 1e-4)
    assert wrong == "the array at [1] is 3.0 instead of 2.0"
    assert "float64[2] instead of float32[1]" in find_difference(
        npy(1), npy(1, 1, dtype="float64"), 1e-4
    )
    assert find_difference(npy(math.inf), npy(1), 1e-4) != ""
    assert find_difference(npy(1, dtype="int64"), npy(2, dtype="int64"), 10.0) != ""


def test_half_precision_is_given_what_it_needs():
    assert find_difference(npy(1, dtype="float16"), npy(1.005, dtype="float16"), 1e-4) == ""
    assert find_difference(npy(1), npy(1.005), 1e-4) != ""


def test_an_array_that_would_run_code_is_compared_as_bytes():
    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("it ran",))

    stream = io.BytesIO()
    numpy.save(stream, numpy.array([Evil()], dtype=object), allow_pickle=True)
    assert find_difference(stream.getvalue(), stream.getvalue() + b"!", 1.0).startswith("byte ")


def test_other_bytes_are_exact():
    assert find_difference(b"\xff\x00", b"\xff\x00", 1.0) == ""
    assert find_difference(b"abc", b"abd!", 1.0) == "byte 2 differs (4 bytes instead of 3)"


def test_status_and_content_type_belong_to_a_reply():
    plain = Reply(status=200, headers={}, body=b"1.0")
    assert find_reply_difference(plain, Reply(status=200, headers={}, body=b"1.00"), 0.0) == ""
    other = find_reply_difference(plain, Reply(status=503, headers={}, body=b"1.0"), 0.0)
    assert other == "status 200 was expected, 503 came"
    typed = Reply(status=200, headers={"content-type": "a/b"}, body=b"1.0")
    assert "'a/b' came" in find_reply_difference(plain, typed, 0.0)


@pytest.mark.parametrize("depth", [900, 100_000])
def test_a_deep_answer_is_no_crash(depth: int):
    deep = b"[" * depth + b"]" * depth
    shallow = b"[" * depth + b"1" + b"]" * depth
    assert find_difference(deep, shallow, 1.0)


def test_corrupted_copies_are_no_text_no_json_and_no_floats():
    copies = dict(corrupted_copies(b'{"a": [1, 2, 3]}'))
    assert copies["cut in half"] == b'{"a": [1'
    with pytest.raises(UnicodeDecodeError):
        copies["replaced by noise"].decode()
    assert len(copies["replaced by noise"]) % 2 == 1
    assert copies["emptied"] == b""


def test_comparing_json_needs_no_numpy():
    code = (
        "import sys; from makemar.serving.comparison import find_difference as f; "
        "assert f(b'1.0', b'2.0', 0.1); print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
