"""Nested settings as one level, so that two of them can be compared key by key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

__all__ = ["flatten"]


def flatten(value: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield `a.b` for the key `b` in `a`, with each value as JSON; a list is one value."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from flatten(item, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix, json.dumps(value, ensure_ascii=False, default=str, sort_keys=True)
