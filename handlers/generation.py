"""Text, token by token: the loop that serves many requests at once.

Every row has its own limits, its own random numbers and its own end, and never sees another row:
its text is the same alone and in a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Protocol

import torch

from makemar.handlers.errors import ModelError, RequestError
from makemar.handlers.generation_options import GenerationOptions

__all__ = ["NextScores", "Row", "choose", "generate"]


class Row:
    """One text on its way: `ids` and `text` so far, and why it ended (`reason`, '' while it runs).

    `decode` turns new ids into text; `stop_ids` end it and are no part of it. `failed` is the
    reason why this row alone cannot go on.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        options: GenerationOptions,
        *,
        decode: Callable[[list[int]], str],
        stop_ids: frozenset[int],
    ) -> None:
        self.prompt = prompt
        self.options = options
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.text = ""
        self.reason = ""
        self.failed: RequestError | None = None
        self._decode = decode
        self._stop_ids = stop_ids
        self._random = torch.Generator().manual_seed(options.seed)

    def take(self, scores: torch.Tensor) -> None:
        """Add the token that the scores (vocabulary,) of this row lead to."""
        # Minus infinity rules a token out; that is fine unless it rules out all of them.
        if not torch.isfinite(scores.max()):
            self.failed = ModelError("the network gave scores that are no numbers")
            self.reason = "error"
            return
        token = choose(scores, self.options, self._random)
        if token in self._stop_ids:
            self.reason = "stop"
            return
        self.ids.append(token)
        if self.options.logprobs:
            self.logprobs.append(float(torch.log_softmax(scores, 0)[token]))
        self.text = self._decode(self.ids)
        self._look_for_the_end()

    def settled(self) -> str:
        """Return the part of the text that no later token can change."""
        if self.reason:
            return self.text
        # A character of several tokens shows as a replacement until its last one is there.
        text = self.text.rstrip("\ufffd")
        held_back = max((len(stop) for stop in self.options.stop), default=1) - 1
        return text[: max(0, len(text) - held_back)]

    def _look_for_the_end(self) -> None:
        found = [self.text.find(stop) for stop in self.options.stop]
        places = [place for place in found if place >= 0]
        if places:
            self.text, self.reason = self.text[: min(places)], "stop"
        elif len(self.ids) >= self.options.max_new_tokens:
            self.reason = "length"


class NextScores(Protocol):
    """A network, as the loop sees it: scores for the next token of every row."""

    def __call__(self, rows: Sequence[Row]) -> torch.Tensor:
        """Return float32 (rows, vocabulary) on the CPU."""


def generate(rows: Sequence[Row], scores: NextScores, *, after_step: Callable[[], None]) -> None:
    """Run rows until each has its reason to end; `after_step` is called once each has a token."""
    running = list(rows)
    while running:
        for row, own in zip(running, scores(running)):
            row.take(own)
        after_step()
        running = [row for row in running if not row.reason]


def choose(scores: torch.Tensor, options: GenerationOptions, random: torch.Generator) -> int:
    """Return the next token for scores (vocabulary,): the best one, or one that is drawn."""
    if options.temperature == 0:
        return int(scores.argmax())
    scores = scores / options.temperature
    kept, tokens = scores.sort(descending=True, stable=True)
    if options.top_k is not None:
        kept = kept[: options.top_k]
    shares = torch.softmax(kept.double(), 0)
    if options.top_p < 1:
        # A token goes when those before it make up the share; the best one always stays.
        before = shares.cumsum(0) - shares
        shares[1:] = shares[1:].masked_fill(before[1:] >= options.top_p, 0.0)
    drawn = torch.rand(1, generator=random, dtype=torch.float64) * shares.sum()
    place = int(torch.searchsorted(shares.cumsum(0), drawn, right=True))
    last = int((shares > 0).sum()) - 1  # rounding may draw past the end
    return int(tokens[min(place, last)])
