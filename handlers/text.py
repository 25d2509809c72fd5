"""What the families that read text share: a tokenizer, its limits, and padding with a mask."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from makemar.handlers.base import BaseHandler
from makemar.handlers.codecs import to_text
from makemar.handlers.errors import BadRequestError, PayloadTooLargeError
from makemar.handlers.limits import limited
from makemar.handlers.outputs import Batch
from makemar.handlers.quoting import list_names
from makemar.handlers.settings import HandlerSettings
from makemar.handlers.tokenization import load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

__all__ = ["TEXT", "TextHandler", "TextSettings", "TokenizedText", "read_text"]

# A text as JSON Schema sees it: alone, or named.
TEXT: Mapping[str, object] = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 1}},
            "required": ["text"],
        },
    ]
}


@dataclasses.dataclass(frozen=True)
class TextSettings(HandlerSettings):
    """`handler:` settings of every family that takes text.

    `tokenizer`: a tokenizer.json in the archive, or `transformers` to let that package load its
    own files. `max_length`: tokens that the network can take; longer texts get 413, or with
    `truncate` lose their end. `max_characters`: longer texts are not even tokenized. `padding`:
    lengths are rounded up to a multiple of it. `token_types`: the network takes `token_type_ids`
    too.
    """

    tokenizer: str = "tokenizer.json"
    max_length: int = limited(512, at_least=1)
    truncate: bool = False
    max_characters: int = limited(200_000, at_least=1)
    padding: int = limited(1, at_least=1)
    token_types: bool = False


class TokenizedText:
    """A text as it was sent, and what the tokenizer made of it."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self.text = text
        self.encoding = encoding
        self.ids: list[int] = encoding.ids


class TextHandler(BaseHandler):
    """Turn texts into token ids, padded with a mask; the families for text build on it.

    The network is called with `input_ids` and `attention_mask`, int64 (n, length); the mask is 0
    where there is only padding. What it gives stays beside the samples it was given for.
    """

    settings_type: ClassVar[type[TextSettings]] = TextSettings
    settings: TextSettings
    tokenizer: Tokenizer
    pad_id = 0

    def _load(self, model_dir: Path) -> None:
        """Load the tokenizer beside network and labels; the warm-up needs it too."""
        wanted = self.settings
        limit = wanted.max_length if wanted.truncate else None
        self.tokenizer, self.pad_id = load_tokenizer(model_dir, wanted.tokenizer, max_length=limit)
        super()._load(model_dir)

    def read(self, value: object) -> TokenizedText:
        """Turn a text, or `{"text": …, "pair": …}`, into tokens with their offsets."""
        text = read_text(value, max_characters=self.settings.max_characters)
        pair = value.get("pair") if isinstance(value, Mapping) else None
        if pair is not None:
            pair = read_text(pair, max_characters=self.settings.max_characters)
        sample = TokenizedText(text, self.tokenizer.encode(text, pair))
        if not sample.ids:
            raise BadRequestError("the text sent holds no tokens")
        if len(sample.ids) > self.settings.max_length:
            raise PayloadTooLargeError(
                f"the text has {len(sample.ids)} tokens, the limit is {self.settings.max_length}"
            )
        return sample

    def length(self, sample: TokenizedText) -> int:
        """Return the number of tokens."""
        return len(sample.ids)

    def collate(self, samples: Sequence[TokenizedText]) -> Batch:
        """Pad token ids at their end to (n, length), with a mask."""
        width = self._width(max(len(sample.ids) for sample in samples))
        ids = torch.full((len(samples), width), self.pad_id, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        types = torch.zeros_like(ids)
        for row, sample in enumerate(samples):
            count = len(sample.ids)
            ids[row, :count] = torch.tensor(sample.ids)
            mask[row, :count] = 1
            types[row, :count] = torch.tensor(sample.encoding.type_ids)
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self.settings.token_types:
            inputs["token_type_ids"] = types
        return Batch(inputs, samples)

    def forward(self, batch: Batch, *args: Any, **kwargs: Any) -> Any:
        """Call the network with the batch's inputs."""
        return super().forward(batch.inputs, *args, **kwargs)

    def examples(self) -> Sequence[Any]:
        """Return a short text and, where a new length costs a first call, one of full length.

        That is on accelerators and with torch.compile; to a CPU a long text is only slow.
        """
        words = ["warm"]
        if self.device.type != "cpu" or self.settings.compile is not None:
            words.append("warm " * self.settings.max_length)
        samples = []
        for text in words:
            encoding = self.tokenizer.encode(text)
            encoding.truncate(self.settings.max_length)
            samples.append(TokenizedText(text, encoding))
        return samples

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema."""
        return {"handler": type(self).__name__, "input": TEXT, "output": {}}

    def _width(self, longest: int) -> int:
        """Round a length up to the setting's multiple, but not over what the network takes."""
        step = self.settings.padding
        return max(longest, min(-(-longest // step) * step, self.settings.max_length))


def read_text(value: object, *, max_characters: int) -> str:
    """Return the text that a client sent: a string, its UTF-8 bytes, or the part named `text`.

    Raises `BadRequestError` for anything else, `PayloadTooLargeError` above `max_characters`.
    """
    if isinstance(value, Mapping):
        if "text" not in value:
            raise BadRequestError(f"the part 'text' is missing (parts sent: {list_names(value)})")
        value = value["text"]
    text = to_text(value)
    if not text:
        raise BadRequestError("the text sent is empty")
    if len(text) > max_characters:
        raise PayloadTooLargeError(
            f"the text has {len(text)} characters, the limit is {max_characters}"
        )
    return text
