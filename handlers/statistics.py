"""What one batch was like: counts and times, for a log line and for TorchServe's metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

__all__ = ["METRICS", "BatchStatistics"]

# Metric name → (attribute, unit). TorchServe shows them once its server is told to
# (`model_metrics_auto_detect=true`), or when its metrics file declares them.
METRICS = {
    # What TorchServe's own handlers call it. Its PredictionTime, always there, spans the same.
    "HandlerTime": ("total_ms", "ms"),
    "MakemarBatchSize": ("requests", "count"),
    "MakemarForwards": ("forwards", "count"),
    "MakemarSamples": ("samples", "count"),
    "MakemarFailed": ("failed", "count"),
    "MakemarBisections": ("bisections", "count"),
    "MakemarMemorySplits": ("memory_splits", "count"),
    "MakemarPaddingPercent": ("padding_percent", "percent"),
    "MakemarDecodeTime": ("decode_ms", "ms"),
    "MakemarForwardTime": ("forward_ms", "ms"),
    "MakemarEncodeTime": ("encode_ms", "ms"),
}


class BatchStatistics:
    """Count one batch on its way through a handler; times are in milliseconds."""

    def __init__(self, requests: int) -> None:
        self.requests = requests
        self.samples = 0
        self.forwards = 0
        self.failed = 0
        self.bisections = 0
        self.memory_splits = 0
        self.decode_ms = 0.0
        self.forward_ms = 0.0
        self.encode_ms = 0.0
        self._tokens = 0
        self._padded = 0
        self._started = self._lap = time.perf_counter()

    @property
    def total_ms(self) -> float:
        """Return the time since the batch arrived."""
        return (time.perf_counter() - self._started) * 1000

    @property
    def padding_percent(self) -> float:
        """Return the share of padding among all tokens that the model saw."""
        return 100 * (1 - self._tokens / self._padded) if self._padded else 0.0

    @property
    def eventful(self) -> bool:
        """Tell a batch in which something went wrong, if only for a while."""
        return bool(self.failed or self.bisections or self.memory_splits)

    def add_padding(self, lengths: Sequence[int], start: int, stop: int) -> None:
        """Count a ragged forward: lengths run from the longest to the shortest."""
        self._tokens += sum(lengths[start:stop])
        self._padded += lengths[start] * (stop - start)

    def add(self, part: BatchStatistics) -> None:
        """Count the forwards of a part of this batch, such as a pipeline's stage, as its own.

        Requests, samples and times are those of the batch: its parts see the same ones again.
        """
        self.forwards += part.forwards
        self.bisections += part.bisections
        self.memory_splits += part.memory_splits
        self._tokens += part._tokens
        self._padded += part._padded

    def lap(self) -> float:
        """Return the milliseconds since the last lap, or since the batch arrived."""
        before, self._lap = self._lap, time.perf_counter()
        return (self._lap - before) * 1000

    def line(self) -> str:
        """Return the batch in one line of a log."""
        return (
            f"batch={self.requests} forwards={self.forwards} samples={self.samples} "
            f"failed={self.failed} bisections={self.bisections} "
            f"memory_splits={self.memory_splits} padding={self.padding_percent:.0f}% "
            f"decode_ms={self.decode_ms:.1f} forward_ms={self.forward_ms:.1f} "
            f"encode_ms={self.encode_ms:.1f} total_ms={self.total_ms:.1f}"
        )

    def emit(self, metrics: Any) -> None:
        """Hand everything to TorchServe's metrics."""
        # TorchServe adds to its own mutable default for `dimensions`; a fresh list each time.
        for name, (attribute, unit) in METRICS.items():
            value = getattr(self, attribute)
            if unit == "ms":
                metrics.add_time(name, round(value, 2), None, "ms", dimensions=[])
            elif unit == "percent":
                metrics.add_percent(name, round(value, 1), None, dimensions=[])
            else:
                metrics.add_counter(name, value, None, dimensions=[])
