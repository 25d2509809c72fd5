"""What a check found out about an archive."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from makemar.serving.worker_times import WorkerTimes

__all__ = ["Breach", "CheckReport", "Contract"]


class Contract(enum.Enum):
    """What a handler promises to everybody whose request it gets."""

    LIFE = "worker lives"
    ANSWER = "input alone is answered"
    STABILITY = "same input, same answer"
    INVARIANCE = "batch changes no answer"
    ISOLATION = "bad input fails alone"
    GOLDEN = "answers are the golden ones"


@dataclass(frozen=True, kw_only=True)
class Breach:
    """One promise broken: by which input, in a batch of which size, at which place (from 0)."""

    contract: Contract
    input: str
    batch_size: int
    message: str
    place: int | None = None

    def __str__(self) -> str:
        where = f"in a batch of {self.batch_size}" if self.batch_size > 1 else "alone"
        place = "" if self.place is None or self.batch_size == 1 else f" at place {self.place}"
        return f"{self.input}: {where}{place}: {self.message} ({self.contract.value})"


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """Everything that was measured; milliseconds throughout.

    `verdicts` says for each contract whether it held; None if it was not looked at, for which
    `notes` have the reason. `batch_ms` is T(B) by batch size: the median time of a whole batch from
    the first byte sent to a worker to the last one back.
    """

    archive: Path
    model: str
    version: str
    batch_sizes: tuple[int, ...]
    tolerance: float
    times: WorkerTimes
    batch_ms: Mapping[int, float]
    verdicts: Mapping[Contract, bool | None]
    breaches: tuple[Breach, ...] = ()
    notes: tuple[str, ...] = ()
    golden: tuple[Path, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether no contract was broken."""
        return not self.breaches

    def to_dict(self) -> dict[str, object]:
        """Return everything as texts, numbers, lists and dicts, fit for JSON."""
        return {
            "archive": str(self.archive),
            "model": self.model,
            "version": self.version,
            "ok": self.ok,
            "batch_sizes": list(self.batch_sizes),
            "tolerance": self.tolerance,
            "cold_start": asdict(self.times) | {"total_ms": self.times.total_ms},
            "batch_ms": {str(size): taken for size, taken in self.batch_ms.items()},
            "contracts": {contract.name.lower(): held for contract, held in self.verdicts.items()},
            "breaches": [
                asdict(breach) | {"contract": breach.contract.name.lower(), "text": str(breach)}
                for breach in self.breaches
            ],
            "notes": list(self.notes),
            "golden_written": [str(path) for path in self.golden],
        }
