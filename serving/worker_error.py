"""The end of a worker, with its reason."""

from __future__ import annotations

import re

from makemar.errors import ServingError
from makemar.serving.worker_log import find_plain_fault, last_words

__all__ = ["WorkerError", "worker_error"]

_FRAMES = 20  # lines of a traceback that are kept
# What faulthandler prints of a worker that was aborted, or ran into a bad address, and the
# innermost frame, which comes first there.
_FATAL = re.compile(
    r'^Fatal Python error: (?P<what>.+)$(?:(?!^  File ").*\n)*?'
    r'^  File "(?:.*/)?(?P<file>[^"/]+)", line (?P<line>\d+) in (?P<name>.+)$',
    re.MULTILINE,
)


class WorkerError(ServingError):
    """A worker did not load, died, or was too slow.

    The message has the worker's own exception and its place if it told them, else its last line;
    `traceback` has the lines of the exception, `output` the last lines that it printed.
    """

    def __init__(
        self, message: str, *, traceback: tuple[str, ...] = (), output: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.traceback = traceback
        self.output = output


def worker_error(
    what: str, output: str, *, advice: str = "", uncaught: bool = False
) -> WorkerError:
    """Tell what happened to a worker, with the reason in what it printed meanwhile.

    `uncaught` is for one that could not catch its own exceptions yet.
    """
    fault = find_plain_fault(output, uncaught=uncaught)
    words = last_words(output, _FRAMES)
    fatal = _FATAL.search(output)
    if fatal is not None:
        reason = f": it was at {fatal['file']} line {fatal['line']}, in {fatal['name']}"
    elif fault is not None:
        reason = f": {fault}"
    else:
        reason = f"; it last printed {words[-1][:200]!r}" if words else "; it printed nothing"
    return WorkerError(
        what + reason + (f"; {advice}" if advice else ""),
        traceback=fault.lines(_FRAMES) if fault is not None else (),
        output=words,
    )
