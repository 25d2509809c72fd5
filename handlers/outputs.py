"""Samples that stay beside their batch, and the one tensor to look at in what a network gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from makemar.handlers.errors import ModelError

__all__ = ["Batch", "main_output"]

# The names under which networks give what they are asked for.
_NAMES = ("logits", "last_hidden_state", "out")


class Batch:
    """What the network takes (`inputs`), and the samples that it was collated from."""

    def __init__(self, inputs: Any, samples: Sequence[Any]) -> None:
        self.inputs = inputs
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)


def main_output(outputs: Any, count: int) -> torch.Tensor:
    """Return the tensor (count, …) among a network's outputs: the only, the named or the first.

    Raises `ModelError` where there is none, or where it has another first dimension.
    """
    if isinstance(outputs, Mapping):
        name = next((name for name in _NAMES if name in outputs), None)
        outputs = outputs[name] if name else next(iter(outputs.values()), None)
    elif isinstance(outputs, (tuple, list)) and outputs:
        outputs = outputs[0]
    if not isinstance(outputs, torch.Tensor):
        raise ModelError(f"the network gave a {type(outputs).__name__}, not a tensor")
    if outputs.dim() == 0 or len(outputs) != count:
        raise ModelError(f"the network gave shape {list(outputs.shape)} for {count} samples")
    return outputs
