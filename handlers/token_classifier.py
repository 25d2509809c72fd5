"""The entities in a text: names, places, dates, with the characters where they stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from makemar.handlers.errors import ModelError
from makemar.handlers.limits import limited
from makemar.handlers.outputs import Batch, main_output
from makemar.handlers.ranking import PROBABILITIES, class_name, rank
from makemar.handlers.request import Request
from makemar.handlers.text import TEXT, TextHandler, TextSettings, TokenizedText

__all__ = ["Span", "TokenClassifier", "TokenClassifierSettings", "join_words"]

_REPLIES = ("entities", "tokens")
# Where in its entity a word stands, in the schemes BIO, BIOES and BILOU.
_PREFIXES, _BEGINS, _ENDS = frozenset("BIOESLU"), frozenset("BSU"), frozenset("ESLU")


@dataclasses.dataclass(frozen=True)
class TokenClassifierSettings(TextSettings):
    """`handler:` settings of `TokenClassifier`.

    `reply`: the `entities` found, or all `tokens` with the probabilities of all labels.
    `outside`: the label of what belongs to no entity. `threshold`: less probable entities are
    left out.
    """

    reply: str = limited("entities", one_of=_REPLIES)
    outside: str = "O"
    threshold: float = limited(0.0, at_least=0, at_most=1)


class Span:
    """Characters from `start` to `end` of a text: a word or an entity, its label and score."""

    def __init__(self, start: int, end: int, label: str, score: float) -> None:
        self.start = start
        self.end = end
        self.label = label
        self.score = score


class TokenClassifier(TextHandler):
    """Answer a text with its entities: `[{"entity": "PER", "text": "Anna", "start": 0, …}]`.

    The network gives scores (n, length, labels). Labels come from index_to_name.json; with `B-`
    and `I-` before them, they say where an entity begins. `start` and `end` count characters
    (Unicode code points) of the text as sent; a word has the label of its first token.
    """

    settings_type: ClassVar[type[TokenClassifierSettings]] = TokenClassifierSettings
    settings: TokenClassifierSettings

    def forward(self, batch: Batch, *args: Any, **kwargs: Any) -> list[Any]:
        """Return each sample with its scores (its own length, labels)."""
        scores = main_output(super().forward(batch, *args, **kwargs), len(batch)).float().cpu()
        if scores.dim() != 3:
            raise ModelError(f"the network gave shape {list(scores.shape)}; labels for each token")
        return [(sample, row[: len(sample.ids)]) for sample, row in zip(batch.samples, scores)]

    def encode(self, output: Any, request: Request) -> object:  # noqa: ARG002
        """Turn a sample and its scores into the reply."""
        sample, scores = output
        if self.settings.reply == "tokens":
            return [
                {"start": start, "end": end, "labels": rank(row, self.mapping, top_k=len(row))}
                for (start, end), word, row in zip(
                    sample.encoding.offsets, sample.encoding.word_ids, scores
                )
                if word is not None
            ]
        found = join_words(self._words(sample, scores), outside=self.settings.outside)
        return [
            {
                "entity": entity.label,
                "text": sample.text[entity.start : entity.end],
                "start": entity.start,
                "end": entity.end,
                "score": entity.score,
            }
            for entity in found
            if entity.score >= self.settings.threshold
        ]

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema."""
        place = {"type": "integer", "minimum": 0}
        fields: dict[str, object] = {"start": place, "end": place}
        if self.settings.reply == "tokens":
            fields["labels"] = PROBABILITIES
        else:
            score = {"type": "number", "minimum": 0, "maximum": 1}
            fields.update(entity={"type": "string"}, text={"type": "string"}, score=score)
        item = {"type": "object", "properties": fields, "required": sorted(fields)}
        output = {"type": "array", "items": item}
        return {"handler": type(self).__name__, "input": TEXT, "output": output}

    def _words(self, sample: TokenizedText, scores: torch.Tensor) -> list[Span]:
        """Return the words of the text, each with the best label of its first token."""
        if not torch.isfinite(scores).all():
            raise ModelError("the network gave scores that are no numbers (NaN or infinite)")
        best = torch.softmax(scores, 1).max(1)
        words: list[Span] = []
        last = None
        encoding = sample.encoding
        for token, (word, text) in enumerate(zip(encoding.word_ids, encoding.sequence_ids)):
            # Special tokens belong to no word; offsets of a second text are not into the first.
            if word is None or text != 0:
                continue
            start, end = encoding.offsets[token]
            if word == last:
                words[-1].end = end
            else:
                label = class_name(self.mapping, int(best.indices[token]))
                words.append(Span(start, end, label, float(best.values[token])))
            last = word
        return words


def join_words(words: Sequence[Span], *, outside: str) -> list[Span]:
    """Join labelled words to entities.

    `B-X` begins one and `I-X` continues it (also as BIOES or BILOU); labels without such a prefix
    continue as long as they are the same. An entity's score is the mean of its words'.
    """
    entities: list[list[Span]] = []
    inside = ""
    for word in words:
        prefix, _, name = word.label.partition("-")
        if word.label == outside:
            inside = ""
            continue
        if prefix not in _PREFIXES or not name:
            prefix, name = "I", word.label
        if prefix in _BEGINS or name != inside:
            entities.append([])
        entities[-1].append(Span(word.start, word.end, name, word.score))
        inside = "" if prefix in _ENDS else name
    return [
        Span(
            parts[0].start, parts[-1].end, parts[0].label, sum(p.score for p in parts) / len(parts)
        )
        for parts in entities
    ]
