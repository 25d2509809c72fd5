"""The model's configuration file inside an archive: the settings in it, as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count

from makemar.errors import ConfigError

__all__ = ["read_config"]

_MOST_VALUES = 100_000


def read_config(text: bytes) -> dict[str, object] | None:
    """Return the keys of a `model-config.yaml`; None if TorchServe could not live with it.

    Only what JSON knows comes back: dates, nan and inf as texts. What aliases blow up to more than
    100,000 values is None too.
    """
    from makemar.configs import ModelDocument

    try:
        budget = count(_MOST_VALUES, -1)
        document = ModelDocument.parse(text)
        return {key: _plain(value, budget) for key, value in document.data.items()}
    except (ConfigError, ValueError, RecursionError):
        return None


def _plain(value: object, budget: Iterator[int]) -> object:
    """Copy a value as JSON knows it; raises ValueError when the budget is spent."""
    if next(budget) < 0:
        raise ValueError("too many values")
    if isinstance(value, dict):
        return {str(key): _plain(item, budget) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item, budget) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has neither nan nor inf
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
