"""How many samples fit into one forward: learnt from failures, forgotten slowly.

A forward that runs out of memory is no error of its requests. The cap for its kind of sample
drops to half of what failed, stays there, and is tried a little higher after many successes; a
try that fails doubles the wait before the next one.
"""

from __future__ import annotations

import gc
import traceback
from collections import OrderedDict
from collections.abc import Hashable

import torch

__all__ = ["MemoryCaps", "is_out_of_memory", "release_memory", "words_of"]

# Successful forwards at the cap before a larger one is tried, at first and at most.
_PATIENCE, _MOST_PATIENCE = 32, 4096
# Buckets remembered at once; an unbounded number of shapes must not fill the memory either.
_BUCKETS = 256


class _Cap:
    """What is known of one bucket."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.proven = 0
        self.successes = 0
        self.patience = _PATIENCE


class MemoryCaps:
    """The largest forward to try for each bucket of equally costly samples."""

    def __init__(self) -> None:
        self._caps: OrderedDict[Hashable, _Cap] = OrderedDict()

    def limit(self, bucket: Hashable, wanted: int) -> int:
        """Return how many of `wanted` samples to run at once, at least 1."""
        cap = self._caps.get(bucket)
        return wanted if cap is None else max(1, min(wanted, cap.size))

    def failed(self, bucket: Hashable, size: int) -> int:
        """Learn that `size` samples did not fit; return how many to try instead, at least 1."""
        cap = self._caps.setdefault(bucket, _Cap(size))
        self._caps.move_to_end(bucket)
        if len(self._caps) > _BUCKETS:
            self._caps.popitem(last=False)
        if cap.proven and size > cap.proven:
            # A larger size was tried and is still too large: wait longer before the next try.
            cap.size, cap.patience = cap.proven, min(2 * cap.patience, _MOST_PATIENCE)
        else:
            cap.size, cap.proven = max(1, size // 2), 0
        cap.successes = 0
        return cap.size

    def fitted(self, bucket: Hashable, size: int) -> None:
        """Learn that `size` samples did fit; after enough of these the cap grows by a quarter."""
        cap = self._caps.get(bucket)
        if cap is None or size < cap.size:
            return
        cap.proven = cap.size
        cap.successes += 1
        if cap.successes >= cap.patience:
            cap.size += max(1, cap.size // 4)
            cap.successes = 0


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether a forward failed for want of memory, on a device or on the host."""
    # torch 2.4 knows the class under torch.cuda only; it covers every accelerator.
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    # The CPU allocator and MPS raise a bare RuntimeError.
    text = words_of(error) if isinstance(error, RuntimeError) else ""
    return "DefaultCPUAllocator" in text or "backend out of memory" in text


def words_of(error: BaseException) -> str:
    """Return what an exception says, or its kind where saying it fails too."""
    try:
        return str(error) or type(error).__name__
    except BaseException as unspeakable:
        if isinstance(unspeakable, KeyboardInterrupt):
            raise
        return type(error).__name__


def release_memory(error: BaseException) -> None:
    """Give back what a failed forward still holds: its frames keep every intermediate tensor."""
    traceback.clear_frames(error.__traceback__)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
