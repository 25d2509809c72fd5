"""Steps that an interrupt may not cut in two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["postponed_interrupts"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def postponed_interrupts() -> Iterator[None]:
    """Let signals that raise an exception, as Ctrl-C does, do so when the block is over.

    Python runs handlers in its main thread, between any two steps: between the start of a process
    and the note of its id, too. In other threads there is nothing to postpone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    caught = {number: handler for number, handler in before.items() if callable(handler)}
    for number in caught:
        signal.signal(number, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)
        for late in arrived:
            signal.raise_signal(late)
