"""Which of the known classes a picture shows."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from typing import Any, ClassVar

import torch

from makemar.handlers.base import BaseHandler
from makemar.handlers.errors import BadRequestError
from makemar.handlers.images import center_crop, normalize, read_image, resize
from makemar.handlers.request import Request
from makemar.handlers.settings import HandlerSettings

__all__ = ["ImageClassifier", "ImageClassifierSettings"]


@dataclasses.dataclass(frozen=True)
class ImageClassifierSettings(HandlerSettings):
    """`handler:` settings of `ImageClassifier`; the defaults are the classic ImageNet ones.

    `top_k`: classes in a reply. `resize`: shorter edge in pixels, `crop`: square cut out of it.
    `mean`, `std`: per channel, of values scaled to 0..1. `max_pixels`: larger pictures get 413.
    """

    top_k: int = 5
    resize: int = 256
    crop: int = 224
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    max_pixels: int = 64_000_000


class ImageClassifier(BaseHandler):
    """Answer a picture with its most probable classes: `{"Egyptian cat": 0.71, …}`.

    Input: the bytes of a picture as the body or as the form field `data`; base64 text works too.
    Class names come from index_to_name.json; without it, the class's index is its name.
    """

    settings_type: ClassVar[type[HandlerSettings]] = ImageClassifierSettings
    settings: ImageClassifierSettings

    def read(self, value: object) -> torch.Tensor:
        """Turn a picture into a float32 tensor (3, crop, crop)."""
        wanted = self.settings
        picture = read_image(_picture_bytes(value), max_pixels=wanted.max_pixels)
        picture = center_crop(resize(picture, wanted.resize), wanted.crop)
        return torch.from_numpy(normalize(picture, wanted.mean, wanted.std))

    def encode(self, output: Any, request: Request) -> dict[str, float]:  # noqa: ARG002
        """Turn class scores (classes,) into the `top_k` names and their probabilities."""
        probabilities = torch.softmax(output.float(), dim=0)
        best = torch.topk(probabilities, min(self.settings.top_k, len(probabilities)))
        reply: dict[str, float] = {}
        for probability, index in zip(best.values.tolist(), best.indices.tolist()):
            name = (self.mapping or {}).get(str(index), str(index))
            # Some label sets name two classes alike (ImageNet: crane); neither may vanish.
            reply[name if name not in reply else f"{name} ({index})"] = probability
        return reply


def _picture_bytes(payload: object) -> bytes:
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        text = payload.partition(",")[2] if payload.startswith("data:") else payload
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadRequestError("the text sent is not a picture in base64") from error
    raise BadRequestError(
        f"expected the bytes of a picture, got JSON ({type(payload).__name__}); "
        "send the file itself as the body"
    )
