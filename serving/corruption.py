"""Corrupted copies of an input, such as a client with a broken disk or a wrong program sends."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["corrupted_copies"]

# No UTF-8, no JSON, no picture, no sound; and no whole number of floats.
_NOISE = bytes(range(0xF5, 0x100)) * 3


def corrupted_copies(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what was done to an input, and what became of it.

    Which of them a handler refuses depends on what it reads: half a text is a text.
    """
    yield "cut in half", body[: len(body) // 2]
    yield "replaced by noise", _NOISE
    yield "emptied", b""
