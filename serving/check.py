"""Whether a handler keeps its promises, in a worker as TorchServe starts it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from makemar.archiver import Archive
from makemar.errors import ServingError
from makemar.serving.check_report import CheckReport
from makemar.serving.comparison import TOLERANCES
from makemar.serving.examination import CheckInput, Examination, WorkerLostError, planned_sizes
from makemar.serving.golden import golden_path, write_golden
from makemar.serving.worker import Worker

__all__ = ["check_archive"]

_DTYPE = "float32"


def check_archive(
    worker: Worker,
    inputs: Sequence[CheckInput],
    *,
    tolerance: float | None = None,
    repeats: int = 5,
    golden: Path | None = None,
    update: bool = False,
) -> CheckReport:
    """Start a worker, ask it with each input alone and in batches of every size, and end it.

    Batches have 1, 2, 4, … requests up to the worker's `batch_size`. In each, every answer must be
    that of the input alone; a corrupted copy of an input must get the only error, and change no
    answer. `tolerance` is relative to the larger number (absolute below 1); by default it is that
    of the archive's `handler.dtype`. T(B) is the median of `repeats` batches.

    With `golden`, the answers alone are compared with the replies stored in that folder; with
    `update` as well they are stored there instead, unless a contract is broken.

    Raises what `Worker.start` raises, and ServingError for inputs that cannot be told apart. A
    worker that dies or hangs later is a breach, and ends the check.
    """
    _check_inputs(inputs, golden)
    with worker:
        sizes = planned_sizes(worker.batch_size)
        if tolerance is None:
            tolerance = _tolerance_of(worker.archive)
        examination = Examination(worker, inputs, tolerance=tolerance, sizes=sizes)
        examination.notes += _blind_spots(inputs, worker.batch_size)
        batch_ms: dict[int, float] = {}
        with contextlib.suppress(WorkerLostError):
            examination.ask_alone()
            examination.ask_in_batches()
            batch_ms = examination.measure(repeats)
            examination.spoil()
    written = _keep_golden(examination, golden, update=update)
    manifest = worker.archive.manifest
    return CheckReport(
        archive=worker.path,
        model=manifest.model_name,
        version=manifest.effective_version,
        batch_sizes=sizes,
        tolerance=tolerance,
        times=worker.times,
        batch_ms=batch_ms,
        verdicts=examination.verdicts,
        breaches=tuple(examination.breaches),
        notes=tuple(examination.notes),
        golden=written,
    )


def _keep_golden(
    examination: Examination, golden: Path | None, *, update: bool
) -> tuple[Path, ...]:
    """Compare with the golden replies, or store them; return the files that were written."""
    if golden is None:
        return ()
    if not update:
        examination.compare_golden(golden)
        return ()
    if examination.breaches:
        examination.notes.append(f"nothing was written to {golden}: mend what is broken first")
        return ()
    answers = examination.answers.items()
    return write_golden((golden_path(golden, item.name), reply) for item, reply in answers)


def _check_inputs(inputs: Sequence[CheckInput], golden: Path | None) -> None:
    if not inputs:
        raise ServingError("there is no input to check with; give one that the model should answer")
    names = [item.name if golden is None else golden_path(golden, item.name) for item in inputs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ServingError(f"two inputs would share the name {twice}; rename one of them")


def _tolerance_of(archive: Archive) -> float:
    """Return the tolerance of the number format that makemar's handlers run the archive in."""
    handler = (archive.config or {}).get("handler")
    dtype = handler.get("dtype") if isinstance(handler, dict) else None
    return TOLERANCES.get(str(dtype), TOLERANCES[_DTYPE])


def _blind_spots(inputs: Sequence[CheckInput], batch_size: int) -> list[str]:
    """Say what cannot be seen with these inputs and this batch size."""
    if batch_size == 1:
        return ["batches were not looked at: the batch size is 1; give --batch-size to see them"]
    if len({item.body for item in inputs}) == 1:
        return ["every input is the same: padding that leaks shows only beside another one"]
    return []
