"""Which class each pixel of a picture belongs to."""

from __future__ import annotations

import base64
import dataclasses
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from makemar.handlers import tensors
from makemar.handlers.base import BaseHandler
from makemar.handlers.errors import ModelError
from makemar.handlers.limits import limited
from makemar.handlers.outputs import Batch, main_output
from makemar.handlers.pictures import (
    MEAN,
    MOST_EDGE,
    PICTURE,
    STD,
    PictureSettings,
    read_picture,
    scale,
)
from makemar.handlers.ranking import class_name
from makemar.handlers.reply import Reply
from makemar.handlers.request import Request

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ImageSegmenter", "ImageSegmenterSettings", "runs_of"]

_REPLIES = ("runs", "map", "png")


@dataclasses.dataclass(frozen=True)
class ImageSegmenterSettings(PictureSettings):
    """`handler:` settings of `ImageSegmenter`.

    `reply`: `runs` (JSON, run lengths of each class), `map` (JSON, the class of every pixel in
    rows) or `png` (a grey picture whose values are classes). `resize`: edges of the picture that
    the network sees, [height, width]; default: as sent. `mean`, `std`: per channel, of values
    scaled to 0..1; the defaults are the classic ImageNet ones.
    """

    reply: str = limited("runs", one_of=_REPLIES)
    resize: tuple[int, ...] = limited((), count=2, at_least=1, at_most=MOST_EDGE)
    mean: tuple[float, ...] = limited(MEAN, count=3)
    std: tuple[float, ...] = limited(STD, count=3, above=0)


class SegmenterSample:
    """A picture as the network sees it, (3, height, width), and its size as it was sent."""

    def __init__(self, pixels: torch.Tensor, size: tuple[int, int]) -> None:
        self.pixels = pixels
        self.size = size
        self.shape = pixels.shape  # samples of one shape share a forward


class ImageSegmenter(BaseHandler):
    """Answer a picture with the class of each of its pixels.

    The network takes (n, 3, height, width) and gives scores (n, classes, height', width'), alone
    or as `out` (torchvision). The reply has the size of the picture that was sent.
    """

    settings_type: ClassVar[type[ImageSegmenterSettings]] = ImageSegmenterSettings
    settings: ImageSegmenterSettings

    def read(self, value: object) -> SegmenterSample:
        """Turn a picture into float32 (3, height, width)."""
        wanted = self.settings
        picture = read_picture(value, max_pixels=wanted.max_pixels)
        size = (picture.height, picture.width)
        if wanted.resize:
            picture = _resized(picture, wanted.resize)
        return SegmenterSample(scale(picture, wanted.mean, wanted.std), size)

    def collate(self, samples: Sequence[SegmenterSample]) -> Batch:
        """Stack pictures of one size to (n, 3, height, width)."""
        return Batch(tensors.stack([sample.pixels for sample in samples]), samples)

    def forward(self, batch: Batch, *args: Any, **kwargs: Any) -> list[Any]:
        """Return each sample with its scores (classes, height', width')."""
        scores = main_output(super().forward(batch.inputs, *args, **kwargs), len(batch))
        if scores.dim() != 4:
            raise ModelError(
                f"the network gave shape {list(scores.shape)}; scores are (n, classes, h, w)"
            )
        return list(zip(batch.samples, scores))

    def encode(self, output: Any, request: Request) -> object:  # noqa: ARG002
        """Turn a sample and its scores into the reply."""
        classes = class_map(output[1], output[0].size)
        if self.settings.reply == "png":
            return Reply(_png(classes), content_type="image/png")
        height, width = classes.shape
        reply: dict[str, object] = {"height": height, "width": width}
        if self.settings.reply == "map":
            names = {
                str(i): class_name(self.mapping, i) for i in sorted(set(classes.flatten().tolist()))
            }
            return {**reply, "classes": names, "map": classes.tolist()}
        runs = runs_of(classes)
        return {**reply, "runs": {class_name(self.mapping, i): runs[i] for i in sorted(runs)}}

    def assemble(self, results: Sequence[object], request: Request, *, several: bool) -> object:
        """Send one PNG as it is; several of them in JSON, as base64."""
        if several:
            results = [_in_json(result) for result in results]
        return super().assemble(results, request, several=several)

    def examples(self) -> Sequence[SegmenterSample]:
        """Return a grey picture of the size in the settings, or of a common one."""
        height, width = self.settings.resize or (480, 640)
        return [SegmenterSample(torch.zeros(3, height, width), (height, width))]

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema."""
        return {"handler": type(self).__name__, "input": PICTURE, "output": self._output_schema()}

    def _output_schema(self) -> Mapping[str, object]:
        if self.settings.reply == "png":
            return {**PICTURE, "contentMediaType": "image/png"}
        size = {"type": "integer", "minimum": 1}
        numbers = {"type": "array", "items": {"type": "integer", "minimum": 0}}
        fields: dict[str, object] = {"height": size, "width": size}
        if self.settings.reply == "map":
            names = {"type": "object", "additionalProperties": {"type": "string"}}
            fields.update(classes=names, map={"type": "array", "items": numbers})
        else:
            fields["runs"] = {"type": "object", "additionalProperties": numbers}
        return {"type": "object", "properties": fields, "required": sorted(fields)}


def class_map(scores: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Return the best class of every pixel, (height, width), from scores of any resolution."""
    scores = scores.float()
    if not torch.isfinite(scores).all():
        raise ModelError("the network gave scores that are no numbers (NaN or infinite)")
    if tuple(scores.shape[1:]) != tuple(size):
        # Scores between pixels mean something, classes between pixels do not.
        scores = torch.nn.functional.interpolate(
            scores[None], size=size, mode="bilinear", align_corners=False
        )[0]
    return scores.argmax(0).cpu()


def runs_of(classes: torch.Tensor) -> dict[int, list[int]]:
    """Return for each class its runs: start, length, start, length, … over all pixels in rows."""
    flat = classes.flatten()
    values, lengths = torch.unique_consecutive(flat, return_counts=True)
    starts = lengths.cumsum(0) - lengths
    runs: dict[int, list[int]] = {}
    for value, start, length in zip(values.tolist(), starts.tolist(), lengths.tolist()):
        runs.setdefault(value, []).extend((start, length))
    return runs


def _resized(picture: Image, size: tuple[int, ...]) -> Image:
    from PIL import Image

    return picture.resize((size[1], size[0]), Image.Resampling.BILINEAR)


def _png(classes: torch.Tensor) -> bytes:
    from PIL import Image

    if int(classes.max()) > 255:
        raise ModelError("a PNG holds 256 classes; set handler.reply to runs or map")
    file = io.BytesIO()
    Image.fromarray(classes.to(torch.uint8).numpy()).save(file, "png")
    return file.getvalue()


def _in_json(result: object) -> object:
    if isinstance(result, Reply) and isinstance(result.body, bytes):
        return base64.b64encode(result.body).decode("ascii")
    return result
