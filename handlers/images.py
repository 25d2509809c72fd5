"""Pictures to model input with Pillow and numpy: the classic resize, crop, scale and normalise.

Each step gives bit for bit what torchvision's Resize, CenterCrop, ToTensor and Normalize give for
the same Pillow picture, without torchvision.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image, UnidentifiedImageError

from makemar.handlers.errors import BadRequestError, PayloadTooLargeError, RequestError
from makemar.handlers.picture_modes import to_rgb, upright

__all__ = ["center_crop", "normalize", "read_image", "resize"]


# Raster formats that Pillow decodes by itself. EPS, for one, would start Ghostscript.
_RASTER = (
    "PNG",
    "JPEG",
    "MPO",
    "GIF",
    "BMP",
    "DIB",
    "WEBP",
    "AVIF",
    "TIFF",
    "JPEG2000",
    "PPM",
    "ICO",
)


@functools.cache
def _formats() -> list[str]:
    Image.init()
    return [name for name in _RASTER if name in Image.OPEN]


def read_image(data: bytes, *, max_pixels: int) -> Image.Image:
    """Decode PNG, JPEG, … to an RGB picture: upright, transparent parts white, 8 bits.

    Raises `BadRequestError` when the bytes are not a whole picture and `PayloadTooLargeError`
    when it has more than `max_pixels`, which is checked before any pixel is decoded.
    """
    try:
        picture = Image.open(io.BytesIO(data), formats=_formats())
        width, height = picture.size
        if width * height > max_pixels:
            raise PayloadTooLargeError(
                f"the picture has {width} x {height} pixels, the limit is {max_pixels}"
            )
        return to_rgb(upright(picture))
    except RequestError:
        raise
    except UnidentifiedImageError as error:
        raise BadRequestError(f"the {len(data)} bytes sent are not a picture") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PayloadTooLargeError(
            f"the picture has too many pixels, the limit is {max_pixels}"
        ) from error
    except Exception as error:
        raise BadRequestError("the picture cannot be decoded; it is damaged") from error


def resize(picture: Image.Image, size: int, *, max_pixels: int) -> Image.Image:
    """Scale the shorter edge to `size` pixels, keeping the aspect ratio (bilinear).

    Raises `PayloadTooLargeError` when that makes more than `max_pixels`: a picture of one by a
    few thousand pixels would become gigabytes.
    """
    width, height = picture.size
    if width <= height:
        target = (size, int(size * height / width))
    else:
        target = (int(size * width / height), size)
    if target[0] * target[1] > max_pixels:
        raise PayloadTooLargeError(
            f"the picture is too thin: {width} x {height} pixels scale to {target[0]} x "
            f"{target[1]}, the limit is {max_pixels} pixels"
        )
    if target == (width, height):
        return picture
    return picture.resize(target, Image.Resampling.BILINEAR)


def center_crop(picture: Image.Image, size: int) -> Image.Image:
    """Cut a size x size square out of the middle; smaller pictures are padded with black."""
    left, top = (_offset(length, size) for length in picture.size)
    return picture.crop((left, top, left + size, top + size))


def _offset(length: int, size: int) -> int:
    """Return where the middle `size` of `length` starts; negative where it must be padded."""
    return round((length - size) / 2) if length >= size else -((size - length) // 2)


def normalize(
    picture: Image.Image, mean: Sequence[float], std: Sequence[float]
) -> np.ndarray[tuple[int, int, int], np.dtype[np.float32]]:
    """Turn an RGB picture into float32 of shape (3, height, width): (value / 255 - mean) / std."""
    pixels = np.asarray(picture)
    # A byte has 256 values, so each channel's arithmetic is done once and then looked up.
    levels = np.arange(256, dtype=np.float32) / np.float32(255)
    out = np.empty((3, *pixels.shape[:2]), dtype=np.float32)
    for channel in range(3):
        table = (levels - np.float32(mean[channel])) / np.float32(std[channel])
        np.take(table, pixels[..., channel], out=out[channel])
    return out
