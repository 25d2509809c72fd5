"""Which of the known classes a text, or a pair of texts, belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from makemar.handlers.codecs import open_single
from makemar.handlers.errors import BadRequestError, PayloadTooLargeError
from makemar.handlers.limits import limited
from makemar.handlers.outputs import Batch, main_output
from makemar.handlers.ranking import PROBABILITIES, rank
from makemar.handlers.request import Request
from makemar.handlers.text import TEXT, TextHandler, TextSettings, read_text

__all__ = ["TextClassifier", "TextClassifierSettings"]


@dataclasses.dataclass(frozen=True)
class TextClassifierSettings(TextSettings):
    """`handler:` settings of `TextClassifier`.

    `top_k`: classes in a reply. `multi_label`: classes do not exclude each other.
    `explain_words`: texts with more words are not explained.
    """

    top_k: int = limited(5, at_least=1)
    multi_label: bool = False
    explain_words: int = limited(200, at_least=0)


class TextClassifier(TextHandler):
    """Answer a text with its most probable classes: `{"positive": 0.97, …}`.

    The network gives scores (n, classes). Class names come from index_to_name.json; without it,
    the class's index is its name.
    """

    settings_type: ClassVar[type[TextClassifierSettings]] = TextClassifierSettings
    settings: TextClassifierSettings

    def forward(self, batch: Batch, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Return scores (n, classes)."""
        return main_output(super().forward(batch, *args, **kwargs), len(batch))

    def encode(self, output: Any, request: Request) -> object:  # noqa: ARG002
        """Turn scores (classes,) into the `top_k` names and their probabilities."""
        return self._rank(output, self.settings.top_k)

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema."""
        output = {**PROBABILITIES, "maxProperties": self.settings.top_k}
        return {"handler": type(self).__name__, "input": TEXT, "output": output}

    def explain(self, request: Request) -> object:
        """Answer with the best class, and how much of its probability hangs on each word.

        Each word is left out in turn; `influence` is what the class then loses, from -1 to 1.
        """
        value = open_single(request, self.settings)
        if isinstance(value, Mapping) and "pair" in value:
            raise BadRequestError("an explanation is given for one text, not for a pair")
        text = read_text(value, max_characters=self.settings.max_characters)
        words = _words(text)
        if len(words) > self.settings.explain_words:
            raise PayloadTooLargeError(
                f"the text has {len(words)} words, "
                f"the limit of an explanation is {self.settings.explain_words}"
            )
        whole = self._probabilities([text])[0]
        best = max(whole, key=lambda name: whole[name])
        shorter = [text[:start] + text[end:] for start, end in words] if len(words) > 1 else []
        losses = [whole[best] - part[best] for part in self._probabilities(shorter)]
        return {
            "class": best,
            "probability": whole[best],
            "words": [
                {"text": text[start:end], "start": start, "end": end, "influence": loss}
                for (start, end), loss in zip(words, losses)
            ],
        }

    def _rank(self, scores: Any, top_k: int) -> dict[str, float]:
        return rank(scores, self.mapping, top_k=top_k, multi_label=self.settings.multi_label)

    def _probabilities(self, texts: list[str]) -> list[dict[str, float]]:
        """Return all classes' probabilities for each text, in forwards of 16."""
        found = []
        for start in range(0, len(texts), 16):
            samples = [self.read(text) for text in texts[start : start + 16]]
            scores = self.inference(self.collate(samples))
            found += [self._rank(row, row.numel()) for row in scores]
        return found


def _words(text: str) -> list[tuple[int, int]]:
    """Return where each word starts and ends, parted by white space."""
    found, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        found.append((start, start + len(word)))
        start += len(word)
    return found
