"""What went wrong with one request, and what its client is told of it."""

from __future__ import annotations

import copy
import traceback

from makemar.handlers.device import is_sticky
from makemar.handlers.errors import (
    BadRequestError,
    DeviceLostError,
    ModelError,
    OutOfMemoryError,
    ReplyError,
    RequestError,
)
from makemar.handlers.memory import is_out_of_memory

__all__ = ["Failed", "let_interrupt_through"]

_IN_THE_LOG = "the server's log has the reason under this request id"


class Failed:
    """The outcome of a request or sample that raised `error` even when it was alone.

    `stage` says where: `decode`, `model` or `encode`. `sample` is the place within its request of
    the sample to blame, where an outcome stands for that of another one; `in_sample` lets the
    client know it.
    """

    def __init__(
        self, error: BaseException, *, stage: str = "model", sample: int | None = None
    ) -> None:
        # Its frames keep every tensor of the failed run; the lines of its traceback stay.
        traceback.clear_frames(error.__traceback__)
        self.error = error
        self.stage = stage
        self.sample = sample
        self._prefix = ""

    def __repr__(self) -> str:
        return f"Failed({self.error!r}, stage={self.stage!r})"

    @property
    def is_chosen(self) -> bool:
        """Tell an error that the handler raised for its client from one that happened to it."""
        # A subclass that skips RequestError's __init__ has nothing to tell.
        return (
            isinstance(self.error, RequestError)
            and {"status", "message"} <= vars(self.error).keys()
        )

    def told(self) -> RequestError:
        """Return what the client is told: a `RequestError` itself, else a line by the stage.

        The text of a foreign exception stays in the log: it may quote paths, weights or secrets.
        """
        told = self._told()
        return told.prefixed(self._prefix) if self._prefix else told

    def trace(self) -> str:
        """Return the traceback for a log, each line set in.

        A message may quote a client, and TorchServe 0.12 reads metrics from lines of the log.
        """
        error = self.error
        try:
            lines = traceback.format_exception(type(error), error, error.__traceback__)
        except BaseException as unspeakable:  # noqa: BLE001  (a __str__ of a user's own)
            let_interrupt_through(unspeakable)
            lines = traceback.format_tb(error.__traceback__)
        text = "".join(lines).encode("utf-8", "backslashreplace").decode("utf-8")
        return "\n".join("  " + line for line in text.splitlines())

    def in_sample(self, position: int) -> Failed:
        """Return the failure of a request whose sample at `position` this was."""
        twin = copy.copy(self)
        twin._prefix = f"sample {position if self.sample is None else self.sample}: "
        return twin

    def _told(self) -> RequestError:
        if isinstance(self.error, RequestError) and self.is_chosen:
            return self.error
        if is_sticky(self.error):
            return DeviceLostError("the device failed; a new worker takes over, try again")
        if is_out_of_memory(self.error):
            return OutOfMemoryError("this request alone does not fit into the server's memory")
        if self.stage == "decode":
            return BadRequestError(f"this handler cannot read the request; {_IN_THE_LOG}")
        if self.stage == "encode":
            return ReplyError(f"the output cannot be turned into a reply; {_IN_THE_LOG}")
        return ModelError(f"the model failed on this input; {_IN_THE_LOG}")


def let_interrupt_through(error: BaseException) -> None:
    """Raise Ctrl-C again; everything else that user code raises costs one request.

    Not exceptions alone: sys.exit(), a cancelled task or a panic of a Rust library would end the
    worker, and every request of the batch with it.
    """
    if isinstance(error, KeyboardInterrupt):
        raise error
