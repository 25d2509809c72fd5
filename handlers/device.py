"""The device of a handler, and the errors after which it is lost to this process."""

from __future__ import annotations

import logging
import os
import threading
from typing import Callable

import torch

from makemar.handlers.errors import LoadError
from makemar.handlers.memory import words_of

__all__ = ["end_worker", "is_sticky", "pick_device"]

logger = logging.getLogger(__name__)

# A CUDA context that has met one of these fails every later call of the process.
_STICKY = ("CUDA error", "device-side assert", "CUBLAS_STATUS_EXECUTION_FAILED", "HIP error")


def pick_device(gpu_id: int | None, wanted: str | None) -> torch.device:
    """Return the device to run on: the one asked for, else the GPU TorchServe assigned, else CPU.

    `cuda` without a number is the assigned GPU too: with several workers each has its own.
    Raises `LoadError` when the wanted device does not exist here.
    """
    if wanted == "cuda" and gpu_id is not None:
        wanted = f"cuda:{gpu_id}"
    if wanted is not None:
        try:
            return torch.empty(0, device=wanted).device
        except (RuntimeError, AssertionError) as error:
            raise LoadError(f"handler.device: {wanted!r} cannot be used here: {error}") from error
    if gpu_id is not None and torch.cuda.is_available():
        return torch.device("cuda", int(gpu_id))
    if gpu_id is not None and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def is_sticky(error: BaseException) -> bool:
    """Tell whether the device is lost to this process (an illegal access, a failed assertion).

    Running out of memory is not: the device works on once memory is released.
    """
    if isinstance(error, torch.cuda.OutOfMemoryError) or not isinstance(error, RuntimeError):
        return False
    accelerator_error = getattr(torch, "AcceleratorError", None)  # torch 2.8 and newer
    if accelerator_error is not None and isinstance(error, accelerator_error):
        return True
    text = words_of(error)
    return any(sign in text for sign in _STICKY)


def end_worker(
    reason: str, *, after: float = 1.0, end: Callable[[int], object] = os._exit
) -> threading.Timer:
    """End this process `after` seconds, so that the replies in hand still go out.

    TorchServe then starts a new worker with a fresh device. `end` is called with the exit code.
    """
    logger.critical("the worker ends because its device is lost: %s", reason)
    timer = threading.Timer(after, end, [1])
    timer.daemon = True
    timer.start()
    return timer
