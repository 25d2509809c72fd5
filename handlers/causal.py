"""Causal networks, as generation calls them: the whole text each time, or only what is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

import torch

from makemar.handlers import tensors
from makemar.handlers.errors import ModelError
from makemar.handlers.generation import Row
from makemar.handlers.outputs import main_output

__all__ = ["CachedCausal", "PlainCausal"]

Network = Callable[[Mapping[str, Any]], Any]


class PlainCausal:
    """A network that sees each text as a whole: `input_ids` and `attention_mask`, (n, length).

    Texts are padded at their end, where a causal network does not look. It gives scores
    (n, length, vocabulary). `width` rounds a length up.
    """

    def __init__(self, network: Network, *, pad_id: int, width: Callable[[int], int]) -> None:
        self.network = network
        self.pad_id = pad_id
        self.width = width

    def __call__(self, rows: Sequence[Row]) -> torch.Tensor:
        """Return the scores of each row's next token, (n, vocabulary)."""
        texts = [[*row.prompt, *row.ids] for row in rows]
        width = self.width(max(len(text) for text in texts))
        ids = torch.full((len(texts), width), self.pad_id, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for i, text in enumerate(texts):
            ids[i, : len(text)] = torch.tensor(text)
            mask[i, : len(text)] = 1
        outputs = main_output(self.network({"input_ids": ids, "attention_mask": mask}), len(rows))
        last = [len(text) - 1 for text in texts]
        return _checked(outputs, width)[list(range(len(rows))), last].float().cpu()


class CachedCausal:
    """A network that keeps what it has read: each step it sees only the new token of each text.

    It takes `input_ids`, `position_ids` (n, new), `attention_mask` (n, length so far),
    `past_key_values` (what it gave before, None at first) and `use_cache=True`; it gives
    (scores, past_key_values), as a pair, a mapping or attributes. Prompts are padded at their
    start, hidden by the mask; positions count from each text's own start.
    """

    def __init__(self, network: Network, *, pad_id: int) -> None:
        self.network = network
        self.pad_id = pad_id
        self.rows: list[Row] = []
        self.mask = torch.zeros(0)
        self.cache: Any = None

    def __call__(self, rows: Sequence[Row]) -> torch.Tensor:
        """Return the scores of each row's next token, (n, vocabulary)."""
        ids = self._prompts(rows) if self.cache is None else self._new_tokens(rows)
        positions = (self.mask.cumsum(1) - 1).clamp_min(0)[:, -ids.shape[1] :]
        outputs = self.network(
            {
                "input_ids": ids,
                "position_ids": positions,
                "attention_mask": self.mask,
                "past_key_values": self.cache,
                "use_cache": True,
            }
        )
        scores, self.cache = _scores_and_cache(outputs, len(rows))
        return _checked(scores, ids.shape[1])[:, -1].float().cpu()

    def _prompts(self, rows: Sequence[Row]) -> torch.Tensor:
        width = max(len(row.prompt) for row in rows)
        ids = torch.full((len(rows), width), self.pad_id, dtype=torch.int64)
        self.mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, width - len(row.prompt) :] = torch.tensor(row.prompt)
            self.mask[i, width - len(row.prompt) :] = 1
        self.rows = list(rows)
        return ids

    def _new_tokens(self, rows: Sequence[Row]) -> torch.Tensor:
        """Let go of the rows that have ended, and make room for one token of the others."""
        if len(rows) < len(self.rows):
            going = {id(row) for row in rows}
            keep = torch.tensor([i for i, row in enumerate(self.rows) if id(row) in going])
            self.mask, self.cache = self.mask[keep], _select(self.cache, keep)
            self.rows = list(rows)
        self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], 1)
        return torch.tensor([[row.ids[-1]] for row in rows])


def _select(cache: Any, keep: torch.Tensor) -> Any:
    """Return the rows to keep of a cache: nested tensors (n, …), or transformers' own class."""
    if hasattr(cache, "batch_select_indices"):
        cache.batch_select_indices(keep)
        return cache
    return tensors.apply(lambda tensor: tensor[keep.to(tensor.device)], cache)


def _scores_and_cache(outputs: Any, count: int) -> tuple[torch.Tensor, Any]:
    if hasattr(outputs, "past_key_values"):  # transformers
        return main_output(outputs.logits, count), outputs.past_key_values
    if isinstance(outputs, Mapping) and "past_key_values" in outputs:
        return main_output(outputs, count), outputs["past_key_values"]
    if isinstance(outputs, tuple) and len(outputs) == 2:
        return main_output(outputs[0], count), outputs[1]
    raise ModelError("the network must give its scores and past_key_values (handler.cache is on)")


def _checked(scores: torch.Tensor, width: int) -> torch.Tensor:
    if scores.dim() != 3 or scores.shape[1] != width:
        raise ModelError(
            f"the network gave shape {list(scores.shape)}; scores are (n, {width}, vocabulary)"
        )
    return scores
