"""What is in a picture, and where: boxes with class names and scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from makemar.handlers import tensors
from makemar.handlers.base import BaseHandler
from makemar.handlers.errors import ModelError
from makemar.handlers.limits import limited
from makemar.handlers.pictures import PICTURE, PictureSettings, read_picture, scale
from makemar.handlers.ranking import class_name
from makemar.handlers.request import Request

__all__ = ["ObjectDetector", "ObjectDetectorSettings"]


@dataclasses.dataclass(frozen=True)
class ObjectDetectorSettings(PictureSettings):
    """`handler:` settings of `ObjectDetector`.

    `threshold`: detections with a lower score are left out. `max_detections`: of each picture,
    the best ones. `mean`, `std`: per channel, of values scaled to 0..1; by default the values
    stay as they are, since detectors in torchvision's style normalise by themselves.
    """

    threshold: float = limited(0.5, at_least=0, at_most=1)
    max_detections: int = limited(100, at_least=1)
    mean: tuple[float, ...] = limited((0.0, 0.0, 0.0), count=3)
    std: tuple[float, ...] = limited((1.0, 1.0, 1.0), count=3, above=0)


class ObjectDetector(BaseHandler):
    """Answer a picture with what is in it: `[{"label": "cat", "score": 0.9, "box": […]}]`.

    The network takes a list of pictures (3, height, width) and gives for each a dict with `boxes`
    (k, 4), `labels` (k,) and `scores` (k,), as torchvision's detectors do. A box is
    [x_min, y_min, x_max, y_max] in pixels of the picture sent. Pictures of one size share a
    forward: beside a larger one, a network would pad them, and padding changes answers.
    """

    settings_type: ClassVar[type[ObjectDetectorSettings]] = ObjectDetectorSettings
    settings: ObjectDetectorSettings

    def read(self, value: object) -> torch.Tensor:
        """Turn a picture into a float32 tensor (3, height, width)."""
        picture = read_picture(value, max_pixels=self.settings.max_pixels)
        return scale(picture, self.settings.mean, self.settings.std)

    def collate(self, samples: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the list that the network takes."""
        return list(samples)

    def split(self, outputs: Any, count: int) -> list[Any]:
        """Return one dict of detections per picture."""
        # Detectors compiled to TorchScript give their (empty) training losses too.
        if isinstance(outputs, tuple) and len(outputs) == 2 and isinstance(outputs[1], list):
            outputs = outputs[1]
        return tensors.split(outputs, count)

    def encode(self, output: Any, request: Request) -> object:  # noqa: ARG002
        """Turn a dict of boxes, labels and scores into a list, the highest score first."""
        boxes, labels, scores = _detections(output)
        best = scores.argsort(descending=True, stable=True)
        best = best[scores[best] >= self.settings.threshold][: self.settings.max_detections]
        return [
            {"label": class_name(self.mapping, int(label)), "score": score, "box": box}
            for label, score, box in zip(
                labels[best].tolist(), scores[best].tolist(), boxes[best].tolist()
            )
        ]

    def examples(self) -> Sequence[torch.Tensor]:
        """Return a grey picture of a common size."""
        return [torch.full((3, 480, 640), 0.5)]

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema."""
        box = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}
        fields = {"label": {"type": "string"}, "score": {"type": "number"}, "box": box}
        item = {"type": "object", "properties": fields, "required": sorted(fields)}
        output = {"type": "array", "items": item, "maxItems": self.settings.max_detections}
        return {"handler": type(self).__name__, "input": PICTURE, "output": output}


def _detections(output: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return boxes, labels and scores, checked against each other."""
    try:
        if not isinstance(output, Mapping):
            raise TypeError(type(output).__name__)
        boxes, labels, scores = (
            output[name].detach().cpu() for name in ("boxes", "labels", "scores")
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError("the network must give boxes, labels and scores per picture") from error
    if boxes.shape != (len(scores), 4) or labels.shape != scores.shape or scores.dim() != 1:
        raise ModelError(
            f"the network gave boxes {list(boxes.shape)}, labels {list(labels.shape)} and scores "
            f"{list(scores.shape)}; they must be (k, 4), (k,) and (k,)"
        )
    boxes, scores = boxes.float(), scores.float()
    if not (torch.isfinite(scores).all() and torch.isfinite(boxes).all()):
        raise ModelError("the network gave boxes or scores that are no numbers (NaN or infinite)")
    return boxes, labels, scores
