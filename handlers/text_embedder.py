"""Texts to vectors whose distance says how close their meanings are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from makemar.handlers.errors import ModelError
from makemar.handlers.limits import limited
from makemar.handlers.outputs import Batch, main_output
from makemar.handlers.text import TEXT, TextHandler, TextSettings

__all__ = ["TextEmbedder", "TextEmbedderSettings"]

_POOLINGS = ("mean", "first", "max")


@dataclasses.dataclass(frozen=True)
class TextEmbedderSettings(TextSettings):
    """`handler:` settings of `TextEmbedder`.

    `pooling`: how the vectors of a text's tokens become one: their `mean`, the `first` (CLS), or
    the `max` of each coordinate. `normalize`: scale vectors to length 1, so that a product of two
    is their cosine.
    """

    pooling: str = limited("mean", one_of=_POOLINGS)
    normalize: bool = True


class TextEmbedder(TextHandler):
    """Answer a text with its vector.

    The network gives one vector per token, (n, length, size), pooled here over the tokens that
    are no padding; or one per text, (n, size), taken as it is.
    """

    settings_type: ClassVar[type[TextEmbedderSettings]] = TextEmbedderSettings
    settings: TextEmbedderSettings

    def forward(self, batch: Batch, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Return float32 vectors (n, size)."""
        vectors = main_output(super().forward(batch, *args, **kwargs), len(batch)).float()
        if vectors.dim() == 3:
            mask = batch.inputs["attention_mask"].to(vectors.device)
            vectors = _pool(vectors, mask[:, :, None], self.settings.pooling)
        if vectors.dim() != 2:
            raise ModelError(
                f"the network gave shape {list(vectors.shape)}; a vector per token or per text"
            )
        return torch.nn.functional.normalize(vectors) if self.settings.normalize else vectors

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema."""
        vector = {"type": "array", "items": {"type": "number"}, "minItems": 1}
        return {"handler": type(self).__name__, "input": TEXT, "output": vector}


def _pool(vectors: torch.Tensor, mask: torch.Tensor, how: str) -> torch.Tensor:
    """Reduce (n, length, size) to (n, size), looking only where the mask is 1."""
    if how == "first":
        return vectors[:, 0]
    if how == "max":
        return vectors.masked_fill(mask == 0, -torch.inf).amax(1)
    return (vectors * mask).sum(1) / mask.sum(1)
