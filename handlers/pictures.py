"""What the families that look at pictures share: how one is sent, read and described."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from makemar.handlers.codecs import to_bytes
from makemar.handlers.dtypes import name_of
from makemar.handlers.errors import BadRequestError, PayloadTooLargeError
from makemar.handlers.images import normalize, read_image
from makemar.handlers.limits import limited
from makemar.handlers.settings import HandlerSettings

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["MEAN", "MOST_EDGE", "PICTURE", "STD", "PictureSettings", "read_picture", "scale"]

# The classic ImageNet ones.
MEAN: tuple[float, ...] = (0.485, 0.456, 0.406)
STD: tuple[float, ...] = (0.229, 0.224, 0.225)
# Longer edges than any network sees; one sample would take gigabytes.
MOST_EDGE = 32_768
# A picture as JSON Schema sees it: as the body it is bytes, inside JSON it is base64.
PICTURE: Mapping[str, object] = {
    "type": "string",
    "contentEncoding": "base64",
    "contentMediaType": "image/*",
}


def _decode_threads() -> int:
    # Decoding lets go of Python's lock, so cores help; beyond four the model wants them. A
    # cpuset may leave this process fewer than the machine has.
    affinity = getattr(os, "sched_getaffinity", None)  # Linux
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return max(1, min(4, cores))


@dataclasses.dataclass(frozen=True)
class PictureSettings(HandlerSettings):
    """`handler:` settings of every family that takes pictures.

    `decode_threads`: as many as this process has cores, up to 4. `max_pixels`: larger pictures get
    413.
    """

    decode_threads: int = dataclasses.field(default_factory=_decode_threads)
    max_pixels: int = limited(64_000_000, at_least=1)


def read_picture(value: object, *, max_pixels: int) -> Image:
    """Turn what a client sent into an RGB picture.

    Takes the bytes of a file, the same in base64 or as a data URL, or a protocol's tensor, uint8
    of shape (height, width) or (height, width, 3). Raises `BadRequestError`, or
    `PayloadTooLargeError`.
    """
    if isinstance(value, torch.Tensor):
        return _from_tensor(value, max_pixels)
    return read_image(to_bytes(value), max_pixels=max_pixels)


def scale(picture: Image, mean: tuple[float, ...], std: tuple[float, ...]) -> torch.Tensor:
    """Turn a picture into float32 (3, height, width): (value / 255 - mean) / std."""
    return torch.from_numpy(normalize(picture, mean, std))


def _from_tensor(pixels: torch.Tensor, max_pixels: int) -> Image:
    from PIL import Image

    shape = list(pixels.shape)
    if pixels.dtype != torch.uint8 or len(shape) not in (2, 3) or shape[2:] not in ([], [3]):
        raise BadRequestError(
            f"the array sent is {name_of(pixels.dtype)} of shape {shape}; a picture is uint8 of "
            "shape [height, width, 3]"
        )
    if not pixels.numel():
        raise BadRequestError("the array sent is a picture without pixels")
    if shape[0] * shape[1] > max_pixels:
        raise PayloadTooLargeError(
            f"the picture has {shape[1]} x {shape[0]} pixels, the limit is {max_pixels}"
        )
    return Image.fromarray(pixels.contiguous().numpy()).convert("RGB")
