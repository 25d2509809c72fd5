import os
import signal
import threading
from collections.abc import Iterator

import pytest

from makemar.serving.interrupts import postponed_interrupts


class Interrupted(BaseException):
    pass


@pytest.fixture
def raising() -> Iterator[None]:
    """Let SIGTERM raise, as `make-mar serve` does."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGTERM, interrupt)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Interrupted)]
)
@pytest.mark.usefixtures("raising")
def test_an_interrupt_waits_until_the_step_is_done(
    number: signal.Signals, error: type[BaseException]
):
    done: list[int] = []

    def step() -> None:
        os.kill(os.getpid(), number)
        done.extend(range(1000))  # time enough for a handler to run

    def postponed() -> None:
        with postponed_interrupts():
            step()

    with pytest.raises(error):
        step()
    assert not done
    with pytest.raises(error):
        postponed()
    assert len(done) == 1000


def test_a_signal_that_raises_nothing_keeps_its_meaning():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with postponed_interrupts():
            os.kill(os.getpid(), signal.SIGTERM)
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_thread_has_nothing_to_postpone():
    handlers = []

    def look() -> None:
        with postponed_interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]
