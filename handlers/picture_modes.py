"""Any picture as upright RGB: turned as its camera says, alpha on white, 16 bits scaled to 8."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from PIL import Image

from makemar.handlers.errors import BadRequestError

__all__ = ["to_rgb", "upright"]

# Pixels along the edge of what is laid on white at a time: 4 MiB a copy.
_TILE = 1024
_ORIENTATION = 0x0112  # the EXIF tag
_TURNS: Mapping[int, Image.Transpose] = MappingProxyType(
    {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
)


def upright(picture: Image.Image) -> Image.Image:
    """Turn a picture as its EXIF orientation says; broken EXIF turns nothing.

    One that is turned takes the place of the one given, which is closed: there is memory for two
    large pictures at a time, but the next step needs room too.
    """
    # Pillow turns a TIFF itself while it loads it, and forgets the tag.
    picture.load()
    try:
        turn = _TURNS.get(picture.getexif().get(_ORIENTATION, 1))
    except Exception:  # noqa: BLE001  (metadata from outside breaks in every way, and is optional)
        return picture
    if turn is None:
        return picture
    turned = picture.transpose(turn)
    picture.close()
    return turned


def to_rgb(picture: Image.Image) -> Image.Image:
    """Return a picture as RGB.

    What is transparent shows white, as on a page; Pillow alone would uncover whatever colour
    lies hidden below. 16-bit grey keeps its 8 high bits; Pillow's older releases cut it at 255.
    Raises `BadRequestError` for 32-bit values, which have no known range.
    """
    if picture.mode == "RGB" and "transparency" not in picture.info:
        return picture
    if picture.mode.startswith("I") or picture.mode == "F":
        return _from_wide(picture)
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        return _on_white(picture)
    return picture.convert("RGB")


def _on_white(picture: Image.Image) -> Image.Image:
    """Lay a picture with transparent parts on white, tile by tile.

    Each step of it makes a copy in four bytes per pixel. Of the whole picture there are two
    copies at a time, itself and the page; all others are as large as a tile.
    """
    width, height = picture.size
    if width <= _TILE and height <= _TILE:
        return _tile_on_white(picture)
    page = Image.new("RGB", picture.size)
    for top, left in itertools.product(range(0, height, _TILE), range(0, width, _TILE)):
        box = (left, top, min(left + _TILE, width), min(top + _TILE, height))
        page.paste(_tile_on_white(picture.crop(box)), box)
    return page


def _tile_on_white(tile: Image.Image) -> Image.Image:
    front = tile.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", front.size, "white"), front).convert("RGB")


def _from_wide(picture: Image.Image) -> Image.Image:
    values = np.asarray(picture)
    # Older releases of Pillow open a 16-bit PNG as 32-bit integers.
    fits = values.dtype.kind in "iu" and values.min() >= 0 and values.max() < 2**16
    if not fits:
        raise BadRequestError(
            "the picture has 32-bit values, which have no known range; send 8 or 16 bits"
        )
    return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")
