"""Texts that go on: a causal language model, many requests at once, streamed on request."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from makemar.handlers.base import BaseHandler
from makemar.handlers.causal import CachedCausal, PlainCausal
from makemar.handlers.codecs import open_envelope
from makemar.handlers.device import is_sticky
from makemar.handlers.errors import (
    BadRequestError,
    LoadError,
    PayloadTooLargeError,
)
from makemar.handlers.failures import Failed, let_interrupt_through
from makemar.handlers.generation import Row, generate
from makemar.handlers.generation_options import (
    COMPLETION,
    PROMPT,
    GenerationOptions,
    read_options,
)
from makemar.handlers.limits import limited
from makemar.handlers.outputs import Batch
from makemar.handlers.reply import Reply
from makemar.handlers.request import Request, Samples
from makemar.handlers.streaming import EVENTS, Streams, event, send_parts
from makemar.handlers.text import TextHandler, TextSettings, TokenizedText

__all__ = ["Prompt", "TextGenerator", "TextGeneratorSettings"]

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TextGeneratorSettings(TextSettings):
    """`handler:` settings of `TextGenerator`.

    `max_length`: tokens of prompt and answer together. `max_new_tokens`: what a request gets
    unless it asks, `most_new_tokens`: what it may ask for. `stop_tokens`: tokens that end a text,
    by name (`</s>`). `cache`: the network takes and gives `past_key_values`.
    """

    max_new_tokens: int = limited(64, at_least=1)
    most_new_tokens: int = limited(1024, at_least=1)
    stop_tokens: tuple[str, ...] = ()
    cache: bool = False

    def __post_init__(self) -> None:
        """Refuse limits that contradict each other, and prompts without their end."""
        super().__post_init__()
        if self.truncate:
            raise LoadError(
                "handler.truncate would cut off the end of a prompt, which is what a text goes on "
                "from; leave it out, and longer prompts get 413"
            )
        if self.max_new_tokens > self.most_new_tokens:
            raise LoadError(
                f"handler.max_new_tokens is {self.max_new_tokens}, "
                f"it must be at most handler.most_new_tokens, {self.most_new_tokens}"
            )


class Prompt(TokenizedText):
    """The text to go on from, what was asked for, and how much of the answer has gone out."""

    def __init__(self, tokenized: TokenizedText, options: GenerationOptions) -> None:
        super().__init__(tokenized.text, tokenized.encoding)
        self.options = options
        # The request that wants its answer in parts. By its id: where it stands in a batch differs
        # between the batch and the part of it that runs.
        self.streamed_to: str | None = None
        self.sent = ""


class TextGenerator(TextHandler):
    """Go on with a text: `{"text": "…", "finish_reason": "stop", "tokens": 12, …}`.

    A request is a text, or `{"text": …}` with any of `max_new_tokens`, `temperature`, `top_k`,
    `top_p`, `stop` (texts), `seed`, `logprobs` and `stream`. With `stream` the reply is a series
    of events, `data: {"text": "…"}`, and a last one with the rest of the reply; the connection
    ends when the whole batch has.
    """

    settings_type: ClassVar[type[TextGeneratorSettings]] = TextGeneratorSettings
    settings: TextGeneratorSettings

    def _load(self, model_dir: Path) -> None:
        """Load tokenizer and model, look up the stop tokens, and see whether parts can be sent."""
        super()._load(model_dir)
        self._stop_ids()
        Streams.of(self.context)

    def decode(self, request: Request) -> Any:
        """Turn one request into a prompt, or several, and note where its parts have to go.

        Options may stand beside each text, or as a protocol's `parameters` for all of them.
        """
        envelope = request.envelope = open_envelope(request, self.settings)
        prompts = Samples(
            self.read({**envelope.parameters, **_named(value)}) for value in envelope.values
        )
        if not envelope.several:
            (prompt,) = prompts
            prompt.streamed_to = request.id if prompt.options.stream else None
            return prompt
        if any(prompt.options.stream for prompt in prompts):
            raise BadRequestError("only a request with a single text can be streamed")
        return prompts

    def read(self, value: object) -> Prompt:
        """Turn a text with its options into a prompt."""
        options = read_options(
            value if isinstance(value, Mapping) else {},
            max_new_tokens=self.settings.max_new_tokens,
            most_new_tokens=self.settings.most_new_tokens,
        )
        if isinstance(value, Mapping):
            # The text alone: everything else has been read, and `pair` means nothing here.
            value = {name: value[name] for name in ("text",) if name in value}
        tokenized = super().read(value)
        room = self.settings.max_length - len(tokenized.ids)
        if room < 1:
            raise PayloadTooLargeError(
                f"the text has {len(tokenized.ids)} tokens, which leaves no room for new ones in "
                f"{self.settings.max_length}"
            )
        limit = min(options.max_new_tokens, room)
        return Prompt(tokenized, dataclasses.replace(options, max_new_tokens=limit))

    def collate(self, samples: Sequence[Any]) -> Batch:
        """Leave prompts as they are; each step pads what it needs."""
        return Batch(None, samples)

    def forward(self, batch: Batch, *args: Any, **kwargs: Any) -> list[Any]:  # noqa: ARG002
        """Return each prompt with its row, once all have ended; send parts meanwhile."""
        stop_ids = self._stop_ids()
        rows = [
            Row(prompt.ids, prompt.options, decode=self._decode, stop_ids=stop_ids)
            for prompt in batch.samples
        ]
        pairs = list(zip(batch.samples, rows))
        streamed = [(p.streamed_to, p, row) for p, row in pairs if p.streamed_to is not None]
        try:
            generate(rows, self._network(), after_step=lambda: self._publish(streamed))
        except BaseException as error:  # noqa: BLE001
            let_interrupt_through(error)
            self._break_off(error, pairs)
        return [
            Failed(row.failed) if row.failed and not prompt.sent else (prompt, row)
            for prompt, row in pairs
        ]

    def encode(self, output: Any, request: Request) -> object:
        """Turn a prompt and its row into the reply, or into what is left of a streamed one."""
        prompt, row = output
        facts: dict[str, object] = {
            "finish_reason": row.reason,
            "prompt_tokens": len(row.prompt),
            "tokens": len(row.ids),
        }
        if row.options.logprobs:
            facts["logprobs"] = row.logprobs
        if row.failed:
            facts.update(error=row.failed.message, request_id=request.id)
        if prompt.streamed_to is None:
            return {"text": row.text, **facts}
        rest = row.text[len(prompt.sent) :]
        events = [event({"text": rest})] if rest else []
        return Reply(b"".join([*events, event(facts)]), content_type=EVENTS)

    def examples(self) -> Sequence[Any]:
        """Return the examples of every text, each with room for its new tokens."""
        prompts = []
        for sample in super().examples():
            # Two tokens, so that a network with a cache meets one that is filled too.
            sample.encoding.truncate(max(1, self.settings.max_length - 2))
            prompts.append(
                Prompt(TokenizedText(sample.text, sample.encoding), GenerationOptions(2))
            )
        return prompts

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema."""
        return {"handler": type(self).__name__, "input": PROMPT, "output": COMPLETION}

    def _network(self) -> PlainCausal | CachedCausal:
        def call(inputs: Mapping[str, Any]) -> Any:
            return BaseHandler.forward(self, dict(inputs))

        if self.settings.cache:
            return CachedCausal(call, pad_id=self.pad_id)
        return PlainCausal(call, pad_id=self.pad_id, width=self._width)

    def _decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    def _stop_ids(self) -> frozenset[int]:
        known = {token: self.tokenizer.token_to_id(token) for token in self.settings.stop_tokens}
        missing = [token for token, number in known.items() if number is None]
        if missing:
            raise LoadError(f"handler.stop_tokens: the tokenizer has no token {missing[0]!r}")
        return frozenset(number for number in known.values() if number is not None)

    def _break_off(self, error: BaseException, pairs: Sequence[tuple[Prompt, Row]]) -> None:
        """End the rows that an error stopped, where no other run of them can tell more.

        A reply that has begun has its status: its end can only say what went wrong. Raises the
        error again where all rows, or halves of them, are to be tried once more.
        """
        if is_sticky(error):
            # From here on nothing reaches the model: what has begun would be left without an end.
            self.forwards.lose(error)
        elif len(pairs) > 1 or not pairs[0][0].sent:
            raise error
        told = Failed(error).told()
        for prompt, row in pairs:
            row.failed, row.reason = told, "error"
            if prompt.sent:
                name = prompt.streamed_to
                logger.error("request %s broke off: %s", name, told.message, exc_info=error)

    def _publish(self, streamed: Sequence[tuple[str, Prompt, Row]]) -> None:
        """Send what is new of each text; a row that runs again repeats nothing.

        `streamed` holds the id of each request that wants parts, its prompt and its row.
        """
        settled = [(name, prompt, row.settled()) for name, prompt, row in streamed]
        grown = [(i, prompt, text) for i, prompt, text in settled if len(text) > len(prompt.sent)]
        parts = {i: event({"text": text[len(prompt.sent) :]}) for i, prompt, text in grown}
        if parts and send_parts(self.context, parts, EVENTS):
            for _, prompt, text in grown:
                prompt.sent = text


def _named(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {"text": value}
