"""What went wrong with one request, and what its client is told of it."""

from __future__ import annotations

import copy

from makemar.handlers.errors import (
    BadRequestError,
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
    the sample to blame, where an outcome stands for that of another one.
    """

    def __init__(
        self, error: BaseException, *, stage: str = "model", sample: int | None = None
    ) -> None:
        self.error = error
        self.stage = stage
        self.sample = sample

    def __repr__(self) -> str:
        return f"Failed({self.error!r}, stage={self.stage!r})"

    def told(self) -> RequestError:
        """Return what the client is told: a `RequestError` itself, else a line by the stage.

        The text of a foreign exception stays in the log: it may quote paths, weights or secrets.
        """
        # A subclass that skips RequestError's __init__ has nothing to tell.
        if isinstance(self.error, RequestError) and hasattr(self.error, "message"):
            return self.error
        if is_out_of_memory(self.error):
            return OutOfMemoryError("this request alone does not fit into the server's memory")
        if self.stage == "decode":
            return BadRequestError(f"this handler cannot read the request; {_IN_THE_LOG}")
        if self.stage == "encode":
            return ReplyError(f"the output cannot be turned into a reply; {_IN_THE_LOG}")
        return ModelError(f"the model failed on this input; {_IN_THE_LOG}")

    def in_sample(self, position: int) -> Failed:
        """Return the failure of a request whose sample at `position` this was."""
        told = copy.copy(self.told())
        blamed = position if self.sample is None else self.sample
        told.message = f"sample {blamed}: {told.message}"
        told.__cause__ = self.error
        return Failed(told)


def let_interrupt_through(error: BaseException) -> None:
    """Raise Ctrl-C again; everything else that user code raises costs one request.

    Not exceptions alone: sys.exit(), a cancelled task or a panic of a Rust library would end the
    worker, and every request of the batch with it.
    """
    if isinstance(error, KeyboardInterrupt):
        raise error
