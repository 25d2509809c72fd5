"""Which of the known classes a picture shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from makemar.handlers.base import BaseHandler
from makemar.handlers.codecs import open_single
from makemar.handlers.errors import RequestError
from makemar.handlers.images import resize_and_crop
from makemar.handlers.limits import limited
from makemar.handlers.pictures import (
    MEAN,
    MOST_EDGE,
    PICTURE,
    STD,
    PictureSettings,
    read_picture,
    scale,
)
from makemar.handlers.preparation import place_inputs
from makemar.handlers.ranking import PROBABILITIES, class_name, rank
from makemar.handlers.request import Request

__all__ = ["ImageClassifier", "ImageClassifierSettings"]

# Cells along each edge of an explanation; finer ones show noise, not what the network saw.
_CELLS = 14


@dataclasses.dataclass(frozen=True)
class ImageClassifierSettings(PictureSettings):
    """`handler:` settings of `ImageClassifier`; the defaults are the classic ImageNet ones.

    `top_k`: classes in a reply. `resize`: shorter edge in pixels, `crop`: square cut out of it.
    `mean`, `std`: per channel, of values scaled to 0..1.
    """

    top_k: int = limited(5, at_least=1)
    resize: int = limited(256, at_least=1, at_most=MOST_EDGE)
    crop: int = limited(224, at_least=1, at_most=MOST_EDGE)
    mean: tuple[float, ...] = limited(MEAN, count=3)
    std: tuple[float, ...] = limited(STD, count=3, above=0)


class ImageClassifier(BaseHandler):
    """Answer a picture with its most probable classes: `{"Egyptian cat": 0.71, …}`.

    Input: the bytes of a picture as the body or as the form field `data`; base64 text works too.
    Class names come from index_to_name.json; without it, the class's index is its name.
    """

    settings_type: ClassVar[type[ImageClassifierSettings]] = ImageClassifierSettings
    settings: ImageClassifierSettings

    def read(self, value: object) -> torch.Tensor:
        """Turn a picture into a float32 tensor (3, crop, crop)."""
        wanted = self.settings
        picture = read_picture(value, max_pixels=wanted.max_pixels)
        seen = resize_and_crop(picture, wanted.resize, wanted.crop)
        return scale(seen, wanted.mean, wanted.std)

    def encode(self, output: Any, request: Request) -> object:  # noqa: ARG002
        """Turn class scores (classes,) into the `top_k` names and their probabilities."""
        return rank(output, self.mapping, top_k=self.settings.top_k)

    def examples(self) -> Sequence[torch.Tensor]:
        """Return one picture's worth of grey."""
        return [torch.zeros(3, self.settings.crop, self.settings.crop)]

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema."""
        output = {**PROBABILITIES, "maxProperties": self.settings.top_k}
        return {"handler": type(self).__name__, "input": PICTURE, "output": output}

    def explain(self, request: Request) -> object:
        """Answer with the best class and where in the picture it was seen.

        `saliency` has 14 rows of 14 cells over the square that the network sees, from 0 to 1
        (gradient times input). Raises a 501 `RequestError` for a model without gradients.
        """
        sample = self.read(open_single(request, self.settings))
        picture = place_inputs(sample[None], self.device, self.settings).requires_grad_()
        with torch.enable_grad():
            scores = self.model(picture)[0].float()
            index = int(scores.argmax())
            if not scores.requires_grad:
                raise RequestError(501, "this model gives no gradients, so nothing is explained")
            (gradient,) = torch.autograd.grad(scores[index], picture)
        influence = (gradient * picture.detach()).float().abs().sum(1)
        cells = torch.nn.functional.adaptive_avg_pool2d(influence, _CELLS)[0]
        return {
            "class": class_name(self.mapping, index),
            "probability": float(torch.softmax(scores.detach(), 0)[index]),
            "saliency": cells / cells.max().clamp_min(1e-12),
        }
