"""Arrays in numpy's own file format, without ever unpickling one."""

from __future__ import annotations

import io
import math
from typing import Any

import torch

from makemar.handlers.codecs.numbers import check_shape
from makemar.handlers.errors import BadRequestError
from makemar.handlers.quoting import quote

__all__ = ["NPY_TYPES", "is_npy", "read_npy", "write_npy"]

NPY_TYPES = ("application/x-npy", "application/npy", "application/x-numpy")
_MAGIC = b"\x93NUMPY"
# torch computes little with wider unsigned types; the next signed type holds all their values.
_WIDER = {"u2": "i4", "u4": "i8"}


def is_npy(data: bytes | bytearray) -> bool:
    """Tell a `.npy` file by its first bytes."""
    return data.startswith(_MAGIC)


def read_npy(data: bytes | bytearray) -> torch.Tensor:
    """Return the array of a `.npy` file as a tensor that owns its memory.

    uint16, uint32 and uint64 become the next signed type that holds them. Raises
    `BadRequestError` for anything but numbers and booleans: objects would have to be unpickled.
    """
    import numpy as np

    dtype, shape, fortran, start = _header(data)
    check_shape(shape)
    count = math.prod(shape)
    if len(data) - start != count * dtype.itemsize:
        raise BadRequestError(
            f"the .npy file announces {count * dtype.itemsize} bytes of data "
            f"and holds {len(data) - start}"
        )
    flat = np.frombuffer(data, dtype, count, start)
    array = flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)
    # A copy: torch takes neither foreign byte order nor read-only memory.
    return torch.from_numpy(_signed(array).copy(order="C"))


def write_npy(array: torch.Tensor) -> bytes:
    """Return the array as a `.npy` file; bfloat16, which numpy lacks, becomes float32."""
    import numpy as np

    tensor = array.detach().cpu()
    buffer = io.BytesIO()
    np.save(buffer, (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy())
    return buffer.getvalue()


def _header(data: bytes | bytearray) -> tuple[Any, tuple[int, ...], bool, int]:
    """Return dtype, shape, order and where the data starts."""
    from numpy.lib import format as npy

    # The header is at most 10,000 characters; numpy refuses longer ones.
    file = io.BytesIO(bytes(data[:20_000]))
    try:
        version = npy.read_magic(file)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, fortran, dtype = readers[version](file)
    except Exception as error:
        raise BadRequestError("the .npy file is damaged: its header cannot be read") from error
    if dtype.kind not in "biufc" or dtype.itemsize > 16 or dtype.char in "gG":
        raise BadRequestError(f"the .npy file holds {dtype}, not numbers or booleans")
    if any(isinstance(size, bool) or size < 0 for size in shape):
        raise BadRequestError(f"the .npy file has the impossible shape {quote(shape)}")
    return dtype, shape, fortran, file.tell()


def _signed(array: Any) -> Any:
    import numpy as np

    kind = array.dtype.str[1:]
    if kind == "u8":
        if array.size and array.max() > np.iinfo(np.int64).max:
            raise BadRequestError("a number sent lies outside of what int64 holds")
        return array.astype("i8")
    return array.astype(_WIDER.get(kind, array.dtype.newbyteorder("=")))
