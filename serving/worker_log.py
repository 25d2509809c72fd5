"""What a worker said before it died, out of the server's log or its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["WorkerFault", "count_failures", "find_fault", "find_plain_fault", "last_words"]

# `2026-12-01T11:46:05,928 [INFO ] W-9003-name_1.0-stdout MODEL_LOG - text`
_SPOKEN = r"^\S+ \[\w+ *\] W-{id}-.*?-std(?:out|err) MODEL_LOG - ?(.*)$"
_RETRY = r"^.* W-{id}-.* - Retry worker: {id} in \d+ seconds\.?$"
_HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<name>.+))?$')
_CHAINED = re.compile(r"^(During handling of|The above exception was)")
# TorchServe 0.12 looks for a handler that cannot be imported among its own, and that second
# failure hides the first.
_MISLEADING = "No module named 'ts.torch_handler."
# Where every worker's traceback begins, which tells nothing about the archive.
_BEATEN_TRACK = re.compile(r'File "(.*/ts/(model_service_worker|model_loader)\.py|.*importlib.*)"')
_END = ("Backend worker process died.", "Failed to load model ", "[PID]")
# What TorchServe 0.12 writes above the exception of a load, or of a batch.
_FAILED = (
    "Backend worker process died.",
    "CUDA out of memory",
    "Failed to load model ",
    "Invoking custom service failed.",
    "Load model ",
    "Prediction error",
    "System out of memory",
    "Unable to serialize model output.",
)
_LONGEST = 12  # lines of one exception's message


@dataclass(frozen=True, kw_only=True)
class WorkerFault:
    """Why a worker could not load its model: the exception, its place, and the whole traceback."""

    exception: str
    place: str
    traceback: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.exception} ({self.place})" if self.place else self.exception

    def lines(self, maximum: int) -> tuple[str, ...]:
        """Return the traceback from the first frame that is not the worker's own, at its end."""
        frames = [index for index, line in enumerate(self.traceback) if _FRAME.match(line)]
        own = [index for index in frames if not _BEATEN_TRACK.search(self.traceback[index])]
        told = self.traceback[own[0] if own else 1 :]
        return (self.traceback[0], *told[-maximum:])


def count_failures(log: str, worker: str) -> int:
    """Count how often the server gave up on a start of this worker and tried again."""
    return len(re.findall(_RETRY.format(id=re.escape(worker)), log, re.MULTILINE))


def find_fault(log: str, worker: str) -> WorkerFault | None:
    """Find the exception that ended this worker's first told start; None if none is whole.

    TorchServe 0.12 stops reading a dying worker's output at any point, so the traceback of one
    start may be cut or missing; the next start's is taken then.
    """
    told = _RETRY.format(id=re.escape(worker))
    for attempt in re.split(told, log, flags=re.MULTILINE):
        lines = re.findall(_SPOKEN.format(id=re.escape(worker)), attempt, re.MULTILINE)
        fault = _first_fault([line.rstrip("\r") for line in lines])
        if fault is not None:
            return fault
    return None


def find_plain_fault(output: str, *, uncaught: bool = False) -> WorkerFault | None:
    """Find the exception that a worker says it failed with, in its own output.

    Others may have been logged and lived with: TorchServe 0.12 does so for JSON that is none. Only
    with `uncaught` is one taken for the reason that no word of the worker's goes before.
    """
    lines = output.rstrip().splitlines()
    failed = next((i for i, line in enumerate(lines) if line.startswith(_FAILED)), None)
    if failed is None and not uncaught:
        return None
    return _first_fault(lines[failed or 0 :])


def last_words(output: str, maximum: int) -> tuple[str, ...]:
    """Return the last lines of a worker's output that say something; metrics are left out."""
    lines = [line.rstrip() for line in output.splitlines()]
    return tuple([line for line in lines if line and not line.startswith("[METRICS]")][-maximum:])


def _first_fault(lines: list[str]) -> WorkerFault | None:
    """Read the first traceback; what follows it is the worker's own way out."""
    if _HEADER not in lines:
        return None
    position = lines.index(_HEADER)
    fault = None
    while position < len(lines) and lines[position] == _HEADER:
        block, position = _block(lines, position)
        if block is None or (fault is not None and _MISLEADING in block.exception):
            break
        fault = block
        position = _skip_link(lines, position)
    return fault


def _block(lines: list[str], start: int) -> tuple[WorkerFault | None, int]:
    """Read one traceback from its header on; None if it is cut before its exception."""
    position, place = start + 1, ""
    while position < len(lines) and lines[position].startswith(" "):
        frame = _FRAME.match(lines[position])
        if frame is not None:
            place = _place(frame)
        position += 1
    if position == len(lines) or not lines[position]:
        return None, position
    first = position
    while position < len(lines) and position - first < _LONGEST and not _over(lines[position]):
        position += 1
    while lines[position - 1] == "":
        position -= 1
    exception = lines[first]
    if exception.endswith(":") and first + 1 < position:
        exception += " " + lines[first + 1].strip()
    fault = WorkerFault(exception=exception, place=place, traceback=tuple(lines[start:position]))
    return fault, position


def _over(line: str) -> bool:
    """Whether an exception's message has ended before this line."""
    return line == _HEADER or line.startswith(_END) or _CHAINED.match(line) is not None


def _skip_link(lines: list[str], position: int) -> int:
    """Step over the sentence that joins two tracebacks; elsewhere stay."""
    ahead = position
    while ahead < len(lines) and not lines[ahead]:
        ahead += 1
    if ahead < len(lines) and _CHAINED.match(lines[ahead]):
        ahead += 1
        while ahead < len(lines) and not lines[ahead]:
            ahead += 1
        return ahead
    return len(lines)


def _place(frame: re.Match[str]) -> str:
    """Write a frame's place with the file's name alone: its folder is a random one."""
    file = frame["file"].rpartition("/")[2]
    inside = f", in {frame['name']}" if frame["name"] else ""
    return f"{file} line {frame['line']}{inside}"
