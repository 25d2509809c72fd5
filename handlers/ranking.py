"""Class scores to named probabilities, the most probable first."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from makemar.handlers.errors import ModelError

__all__ = ["PROBABILITIES", "class_name", "rank"]

# A ranking as JSON Schema sees it.
PROBABILITIES: Mapping[str, object] = {
    "type": "object",
    "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1},
    "minProperties": 1,
}


def rank(
    scores: torch.Tensor,
    mapping: Mapping[str, str] | None,
    *,
    top_k: int,
    multi_label: bool = False,
) -> dict[str, float]:
    """Turn scores (classes,) into the `top_k` names and their probabilities.

    Classes exclude each other (softmax), or with `multi_label` each is a yes or no (sigmoid).
    Raises `ModelError` when the scores are not one row of numbers.
    """
    if not isinstance(scores, torch.Tensor) or scores.dim() != 1 or not len(scores):
        raise ModelError("the network must give one score per class, (n, classes)")
    scores = scores.float()
    if not torch.isfinite(scores).all():
        raise ModelError("the network gave scores that are no numbers (NaN or infinite)")
    probabilities = torch.sigmoid(scores) if multi_label else torch.softmax(scores, dim=0)
    best = torch.topk(probabilities, min(top_k, len(probabilities)))
    ranked: dict[str, float] = {}
    for probability, index in zip(best.values.tolist(), best.indices.tolist()):
        name = class_name(mapping, index)
        # Some label sets name two classes alike (ImageNet: crane); neither may vanish.
        ranked[name if name not in ranked else f"{name} ({index})"] = probability
    return ranked


def class_name(mapping: Mapping[str, str] | None, index: int) -> str:
    """Return a class's name, or its index where it has none."""
    return (mapping or {}).get(str(index), str(index))
