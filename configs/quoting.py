"""Values of a configuration as a message shows them: on one line, whatever they are."""

from __future__ import annotations

__all__ = ["quote"]

_MOST = 200


def quote(value: object) -> str:
    """Write a value as Python does, shortened to 200 characters.

    Python itself refuses to write a number of more than 4300 digits, which YAML can hold.
    """
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."
