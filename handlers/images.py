"""Pictures to model input with Pillow and numpy: the classic resize, crop, scale and normalise.

The results are those of torchvision's Resize, CenterCrop, ToTensor and Normalize for the same
Pillow picture, without torchvision: a pixel may be a level or two of 255 apart, because what the
crop leaves away is not scaled first.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image, UnidentifiedImageError

from makemar.handlers.errors import BadRequestError, PayloadTooLargeError, RequestError
from makemar.handlers.picture_modes import to_rgb, upright

__all__ = ["normalize", "read_image", "resize_and_crop"]


# Raster formats that Pillow decodes by itself, and whose size it knows before: EPS would start
# Ghostscript, an ICO file may hold a picture that is larger than it says.
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
)


@functools.cache
def _formats() -> list[str]:
    Image.init()
    return [name for name in _RASTER if name in Image.OPEN]


def _raise_pillows_limit(max_pixels: int) -> None:
    """Let Pillow open what our own limit lets through; its own holds for the whole process."""
    if Image.MAX_IMAGE_PIXELS is not None and max_pixels > Image.MAX_IMAGE_PIXELS:
        Image.MAX_IMAGE_PIXELS = max_pixels


def read_image(data: bytes, *, max_pixels: int) -> Image.Image:
    """Decode PNG, JPEG, … to an RGB picture: upright, transparent parts white, 8 bits.

    Raises `BadRequestError` when the bytes are not a whole picture and `PayloadTooLargeError`
    when it has more than `max_pixels`, which is checked before any pixel is decoded.
    """
    try:
        _raise_pillows_limit(max_pixels)
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


def resize_and_crop(picture: Image.Image, size: int, crop: int) -> Image.Image:
    """Scale the shorter edge to `size` pixels (bilinear) and cut `crop` x `crop` out of the middle.

    What the cut leaves away is never computed, however long and thin the picture is. Smaller
    pictures are padded with black.
    """
    scaled = _scaled(picture.size, size)
    (left, right), (top, bottom) = (_kept(length, crop) for length in scaled)
    across, down = picture.width / scaled[0], picture.height / scaled[1]
    seen = picture.resize(
        (right - left, bottom - top),
        Image.Resampling.BILINEAR,
        box=(
            left * across,
            top * down,
            min(right * across, picture.width),
            min(bottom * down, picture.height),
        ),
    )
    if seen.size == (crop, crop):
        return seen
    page = Image.new(seen.mode, (crop, crop))
    page.paste(seen, ((crop - seen.width) // 2, (crop - seen.height) // 2))
    return page


def _scaled(size: tuple[int, int], shorter: int) -> tuple[int, int]:
    """Return width and height once the shorter edge has `shorter` pixels."""
    width, height = size
    if width <= height:
        return shorter, int(shorter * height / width)
    return int(shorter * width / height), shorter


def _kept(length: int, crop: int) -> tuple[int, int]:
    """Return where the middle `crop` of `length` starts and ends; all of it where it is less."""
    if length <= crop:
        return 0, length
    start = round((length - crop) / 2)
    return start, start + crop


def normalize(
    picture: Image.Image, mean: Sequence[float], std: Sequence[float]
) -> np.ndarray[tuple[int, int, int], np.dtype[np.float32]]:
    """Turn an RGB picture into float32 of shape (3, height, width): (value / 255 - mean) / std."""
    shape = (3, 1, 1)
    # In place, and letting go of Python's lock: other threads decode meanwhile.
    out = np.asarray(picture).transpose(2, 0, 1).astype(np.float32, order="C")
    out /= np.float32(255)
    out -= np.asarray(mean, np.float32).reshape(shape)
    out /= np.asarray(std, np.float32).reshape(shape)
    return out
