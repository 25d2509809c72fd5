"""Arrays in files arrive as they were, and nothing in a file is ever run."""

import io
import pickle
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.torch import load, save

from makemar.handlers import BadRequestError, Request
from makemar.handlers.codecs import open_envelope, to_tensor
from makemar.handlers.codecs.npy import read_npy, write_npy
from makemar.handlers.codecs.tensor_file import read_safetensors, write_safetensors

# What torch computes with; the wider unsigned types come back as the next signed one.
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "f2", "f4", "f8", "c8", "c16"]
any_array = st.sampled_from(DTYPES).flatmap(
    lambda kind: arrays.arrays(
        np.dtype(kind), arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
    )
)


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def value_of(body, content_type=""):
    headers = {"body": {"content-type": content_type}}
    return open_envelope(Request({"body": bytearray(body)}, headers=headers)).values[0]


@given(any_array)
def test_an_array_survives_both_ways(array):
    tensor = read_npy(npy(array))
    np.testing.assert_array_equal(tensor.numpy(), array)
    assert tensor.shape == array.shape
    again = np.load(io.BytesIO(write_npy(tensor)))
    np.testing.assert_array_equal(again, array)


@given(any_array)
def test_memory_order_and_byte_order_do_not_matter(array):
    other = np.asfortranarray(array.astype(array.dtype.newbyteorder(">")))
    np.testing.assert_array_equal(read_npy(npy(other)).numpy(), array)


def test_a_npy_body_is_known_by_its_type_and_by_its_first_bytes():
    body = npy(np.arange(6, dtype=np.int64).reshape(2, 3))
    for kind in ("", "application/octet-stream", "application/x-npy"):
        assert value_of(body, kind).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(BadRequestError, match="header cannot be read"):
        value_of(b"no array", "application/x-npy")


def test_a_sample_does_not_share_memory_with_its_request():
    body = bytearray(npy(np.zeros(3, dtype=np.float32)))
    tensor = read_npy(body)
    tensor += 1
    assert read_npy(body).tolist() == [0.0, 0.0, 0.0]


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def test_pickles_are_never_loaded():
    body = npy(np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(BadRequestError, match="holds object, not numbers"):
        value_of(body)
    assert value_of(pickle.dumps(Bomb())) == pickle.dumps(Bomb())


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([b"a"]), np.zeros(1, [("a", "f4")]), np.array("2020", "M8")]
)
def test_only_numbers_are_read(array):
    with pytest.raises(BadRequestError, match="not numbers or booleans"):
        read_npy(npy(array))


def test_a_header_that_lies_costs_no_memory():
    body = npy(np.zeros((1, 3)))
    with pytest.raises(BadRequestError, match=r"announces 72000.* bytes of data and holds"):
        read_npy(body.replace(b"(1, 3)", b"(9" + b"0" * 14 + b",)"))
    with pytest.raises(BadRequestError):
        read_npy(body[:-1])
    with pytest.raises(BadRequestError, match="impossible shape"):
        read_npy(body.replace(b"(1, 3)", b"(-1,-3)"))


def test_an_enormous_array_of_nothing_is_refused():
    assert read_npy(npy(np.zeros((3, 0)))).shape == (3, 0)
    with pytest.raises(BadRequestError, match="no elements in its shape"):
        read_npy(npy(np.zeros((10**12, 0))))
    with pytest.raises(BadRequestError, match="no elements in its shape"):
        read_safetensors(save({"a": torch.empty(10**12, 0)}))


def test_a_uint64_beyond_int64_is_refused():
    assert read_npy(npy(np.array([2**63 - 1], "u8"))).tolist() == [2**63 - 1]
    with pytest.raises(BadRequestError, match="int64"):
        read_npy(npy(np.array([2**63], "u8")))


def test_bfloat16_leaves_as_float32():
    array = np.load(io.BytesIO(write_npy(torch.tensor([1.5], dtype=torch.bfloat16))))
    assert array.dtype == np.float32
    assert array.tolist() == [1.5]


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name != "__metadata__"
)


@given(st.dictionaries(names, any_array.filter(lambda a: a.dtype.kind != "c"), max_size=3))
def test_named_tensors_survive_both_ways(named):
    tensors = {
        name: torch.from_numpy(array.copy())
        for name, array in named.items()
        if array.dtype.itemsize
    }
    again = read_safetensors(write_safetensors(tensors))
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert again[name].dtype == tensor.dtype
        assert torch.equal(again[name].nan_to_num(), tensor.nan_to_num())


def test_tensors_that_share_memory_can_be_sent():
    whole = torch.arange(6.0).reshape(2, 3)
    again = load(write_safetensors({"whole": whole, "part": whole[0], "turned": whole.T}))
    assert torch.equal(again["turned"], whole.T)


def test_several_tensors_are_a_dict_and_one_is_itself():
    left, right = torch.tensor([1, 2]), torch.tensor([0.5])
    both = value_of(save({"left": left, "right": right}))
    assert both["left"].tolist() == [1, 2]
    assert value_of(save({"left": left}), "application/safetensors").tolist() == [1, 2]


@pytest.mark.parametrize(
    "body",
    [
        b"no tensors",
        struct.pack("<Q", 2) + b"{]",
        struct.pack("<Q", 2**40) + b"{}",
        save({"a": torch.ones(3)})[:-1],
    ],
)
def test_a_damaged_safetensors_file_is_a_400(body):
    with pytest.raises(BadRequestError, match="safetensors file cannot be read"):
        value_of(body, "application/safetensors")


def test_files_are_arrays_wherever_a_value_stands():
    assert to_tensor(npy(np.array([1.5]))).tolist() == [1.5]
    assert to_tensor(save({"a": torch.tensor([2.5])})).tolist() == [2.5]
