"""The `handler:` section of model-config.yaml, as a checked dataclass.

A handler class names its settings type; a subclass may extend it with fields of its own, and say
with `limited` which values they may have. Keys that no field knows are refused with the nearest
one that exists.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
from collections.abc import Collection, Mapping
from typing import Any, Optional, TypeVar

from makemar.handlers.dtypes import PRECISIONS
from makemar.handlers.errors import LoadError
from makemar.handlers.limits import check_limits, limited
from makemar.handlers.setting_types import as_type, types_of

__all__ = ["HandlerSettings", "read_settings"]

logger = logging.getLogger(__name__)

# TorchServe's own handlers read these keys of the same section; they are not ours to refuse.
_FOREIGN_KEYS = frozenset({"profile"})
_COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
# More threads than any machine has cores: torch fails on far more with words of its own.
_MOST_THREADS = 1024


@dataclasses.dataclass(frozen=True)
class HandlerSettings:
    """What every handler can be told.

    Where: `device` (`cpu`, `cuda`, `cuda:1` …; default: what TorchServe assigned), `threads`
    (torch's own; default: as the environment says), `decode_threads` (1: the worker's own thread).

    How the model runs: `dtype` (`float32`, `bfloat16`, `float16`), `channels_last`, `compile` (a
    torch.compile mode, or `default`), `quantize` (`int8`: dynamic, for CPU), `warmup` (run every
    planned batch size before the worker is READY).

    How large a forward gets: `max_forward_batch` samples, `max_tokens` after padding,
    `max_padding_waste` (share of padding above which ragged samples part).

    What comes in, above which a request gets 413: `max_request_bytes` (default: what the server's
    own `max_request_size` lets through), `max_samples` in one request, `max_nesting` of lists and
    objects in JSON. Families add what they count: tokens, pixels, seconds.

    What goes out: `max_response_bytes` (TorchServe kills the worker above `max_response_size`;
    default: the server's own, 6,553,500).

    What is told: `log_batches` (a line for every batch, not only for one that was bisected, split
    or failed), `metrics` (the same through TorchServe's metrics; each costs the server a log line
    per batch).

    What may run: `unsafe_pickle` lets a pickled network be loaded, which can run any code.
    """

    device: Optional[str] = None  # noqa: UP045  (read at run time, on Python 3.9 too)
    threads: Optional[int] = limited(None, at_least=1, at_most=_MOST_THREADS)  # noqa: UP045
    decode_threads: int = limited(1, at_least=1, at_most=_MOST_THREADS)
    dtype: str = limited("float32", one_of=PRECISIONS)
    channels_last: bool = False
    compile: Optional[str] = limited(None, one_of=_COMPILE_MODES)  # noqa: UP045
    quantize: Optional[str] = limited(None, one_of=("int8",))  # noqa: UP045
    warmup: bool = True
    max_forward_batch: Optional[int] = limited(None, at_least=1)  # noqa: UP045
    max_tokens: Optional[int] = limited(None, at_least=1)  # noqa: UP045
    max_padding_waste: float = limited(0.5, at_least=0, at_most=1)
    max_request_bytes: Optional[int] = limited(None, at_least=1)  # noqa: UP045
    max_samples: int = limited(1024, at_least=1)
    max_nesting: int = limited(64, at_least=1)
    max_response_bytes: int = limited(6_553_500, at_least=1)
    log_batches: bool = False
    metrics: bool = False
    unsafe_pickle: bool = False

    def __post_init__(self) -> None:
        """Refuse types that no setting can have, and values of the right type that mean nothing.

        Every handler class makes its defaults, so a wrong type is told when the class is made.
        """
        types_of(type(self))
        check_limits(self, section="handler")


Settings = TypeVar("Settings", bound=HandlerSettings)


def read_settings(
    kind: type[Settings], config: Mapping[str, Any], *, own_keys: bool = False
) -> Settings:
    """Read the `handler:` section of `config` into `kind`.

    With `own_keys` the handler may read keys of its own from the section, as handlers written for
    TorchServe do: one that resembles no setting is left to it, with a warning. Raises `LoadError`
    for any other unknown key (with the nearest known one), and for a value of another type or out
    of its limits.
    """
    types = types_of(kind)
    try:
        return kind(**_values(config.get("handler") or {}, types, own_keys=own_keys))
    except LoadError as error:
        raise LoadError(f"model-config.yaml: {error}") from error


def _values(section: object, types: Mapping[str, Any], *, own_keys: bool) -> dict[str, Any]:
    if not isinstance(section, Mapping):
        raise LoadError(f"handler is {section!r}, not a mapping of settings")
    values = {}
    for key, value in section.items():
        if key in types:
            try:
                values[key] = as_type(value, types[key])
            except TypeError as error:
                raise LoadError(f"handler.{key} is {error}") from error
        elif key not in _FOREIGN_KEYS:
            _judge_unknown(str(key), types, own_keys=own_keys)
    return values


def _judge_unknown(key: str, known: Collection[str], *, own_keys: bool) -> None:
    # `max_length` is none of `max_nesting`'s slips, where a handler has keys of its own.
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.85 if own_keys else 0.6)
    if own_keys and not near:
        logger.warning("handler.%s is no setting of makemar; it is left to the handler", key)
        return
    hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(sorted(known))}"
    raise LoadError(f"handler.{key} is not a setting; {hint}")
