"""What one request may ask of a language model, read from JSON and told as JSON Schema."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from typing import Any, Optional

from makemar.handlers.errors import BadRequestError
from makemar.handlers.quoting import quote

__all__ = ["COMPLETION", "PROMPT", "GenerationOptions", "read_options"]
# Each new token is searched for every stop text, and as much of a streamed text is held back as
# the longest of them has characters.
_MOST_STOPS, _LONGEST_STOP = 16, 256
_WHOLE = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string", "minLength": 1}
_STOP = {**_TEXT, "maxLength": _LONGEST_STOP}
PROMPT: Mapping[str, object] = {
    "anyOf": [
        _TEXT,
        {
            "type": "object",
            "properties": {
                "text": _TEXT,
                "max_new_tokens": {"type": "integer", "minimum": 1},
                "temperature": {"type": "number", "minimum": 0, "maximum": 100},
                "top_k": _WHOLE,
                "top_p": {"type": "number", "minimum": 0, "maximum": 1},
                "stop": {
                    "anyOf": [_STOP, {"type": "array", "items": _STOP, "maxItems": _MOST_STOPS}]
                },
                "seed": _WHOLE,
                "logprobs": {"type": "boolean"},
                "stream": {"type": "boolean"},
            },
            "required": ["text"],
        },
    ]
}
COMPLETION: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "finish_reason": {"enum": ["stop", "length", "error"]},
        "prompt_tokens": _WHOLE,
        "tokens": _WHOLE,
        "logprobs": {"type": "array", "items": {"type": "number", "maximum": 0}},
    },
    "required": ["finish_reason", "prompt_tokens", "text", "tokens"],
}


@dataclasses.dataclass(frozen=True)
class GenerationOptions:
    """What one request asks for.

    `temperature` 0 takes the best token each time; above 0 tokens are drawn, from the `top_k` best
    and from those that make up the share `top_p`, by the random numbers of `seed`. Generation
    ends after `max_new_tokens`, at a stop token, or before one of the texts in `stop` (at most 16
    of at most 256 characters).
    """

    max_new_tokens: int
    temperature: float = 0.0
    top_k: Optional[int] = None  # noqa: UP045
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    logprobs: bool = False
    stream: bool = False


def read_options(
    given: Mapping[str, Any], *, max_new_tokens: int, most_new_tokens: int
) -> GenerationOptions:
    """Read what a request asks for; `max_new_tokens` unless it says, at most `most_new_tokens`.

    Raises `BadRequestError` that names the option.
    """
    top_k = _number(given, "top_k", 0, low=0, high=2**31)
    # Without a seed each request draws its own, and keeps it if it has to run again.
    seed = _number(given, "seed", random.getrandbits(62), low=0, high=2**63 - 1)
    return GenerationOptions(
        max_new_tokens=int(
            _number(given, "max_new_tokens", max_new_tokens, low=1, high=most_new_tokens)
        ),
        temperature=_number(given, "temperature", 0.0, low=0, high=100),
        top_k=int(top_k) or None,
        top_p=_number(given, "top_p", 1.0, low=0, high=1),
        stop=_stop(given),
        seed=int(seed),
        logprobs=_flag(given, "logprobs"),
        stream=_flag(given, "stream"),
    )


def _number(given: Mapping[str, Any], name: str, default: float, *, low: int, high: int) -> float:
    value = given.get(name, default)
    # A whole number must stay one; what the default is says which kind is meant.
    kinds = (int,) if isinstance(default, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise BadRequestError(f"{name} is {quote(value)}, not {kind} from {low} to {high}")
    return value


def _stop(given: Mapping[str, Any]) -> tuple[str, ...]:
    stop = given.get("stop", ())
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, (list, tuple)) or not all(isinstance(s, str) and s for s in stop):
        raise BadRequestError("stop is not a text or a list of texts")
    if len(stop) > _MOST_STOPS:
        raise BadRequestError(f"stop has {len(stop)} texts, the limit is {_MOST_STOPS}")
    longest = max(map(len, stop), default=0)
    if longest > _LONGEST_STOP:
        raise BadRequestError(
            f"a text in stop has {longest} characters, the limit is {_LONGEST_STOP}"
        )
    return tuple(stop)


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise BadRequestError(f"{name} is {quote(value)}, neither true nor false")
    return value
