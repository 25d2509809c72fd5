"""What happens when the program is asked to end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["end_on_sigterm"]


@contextmanager
def end_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the program by way of its clean-up; the exit code is the shell's own, 143.

    By default the signal ends a process on the spot, with its unfinished files left behind.
    """
    if threading.current_thread() is not threading.main_thread():  # only there signals are handled
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal's signature
    sys.exit(128 + number)
