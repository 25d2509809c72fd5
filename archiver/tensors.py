"""What differs between two files of weights, tensor by tensor, with nothing of them run."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["TensorChange", "compare_tensors", "holds_tensors"]

_PICKLED, _SAFE = (".pt", ".pth", ".bin", ".ckpt"), (".safetensors",)
_SLICE = 1 << 22  # elements that are compared at once, for the memory's sake


@dataclass(frozen=True, kw_only=True)
class TensorChange:
    """One tensor that differs: `added`, `removed`, or what it was and is.

    `before` and `after` are dtype and shape, such as `float32[64, 3]`; empty for one that is not
    there. `largest` is the largest absolute difference of two numbers, None where shapes differ;
    NaN against a number is infinitely far.
    """

    name: str
    before: str = ""
    after: str = ""
    largest: float | None = None

    @property
    def how(self) -> str:
        """Return in a word what happened to it."""
        if not self.before:
            return "added"
        return "changed" if self.after else "removed"


def holds_tensors(name: str) -> bool:
    """Tell by a member's name whether weights can be expected in it."""
    return name.endswith(_PICKLED + _SAFE)


def compare_tensors(before: Path, after: Path, name: str) -> tuple[tuple[TensorChange, ...], str]:
    """Compare two files of weights; the second value says why that was not possible, or is empty.

    `name` tells their kind. They are mapped into memory, not read into it, and loaded with
    `weights_only=True`. torch is imported here and nowhere else.
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        return (), "torch is not installed, so weights are not compared by tensor"
    load = _load_safe if name.endswith(_SAFE) else _load_pickled
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about formats that are refused anyway
            return tuple(_compare(load(before), load(after))), ""
    except ImportError as error:
        return (), f"{error.name} is not installed, so weights are not compared by tensor"
    except _UNLOADABLE as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        return (), f"it holds no tensors that can be loaded safely ({reason})"


# What loading wild bytes raises, documented and not.
_UNLOADABLE = (
    pickle.UnpicklingError,
    RuntimeError,
    ValueError,
    OSError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
)


def _load_pickled(path: Path) -> dict[str, torch.Tensor]:
    import torch

    def load(*, mmap: bool) -> object:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)

    try:
        loaded = load(mmap=True)
    except RuntimeError as error:
        # Files of before torch 1.6 cannot be mapped.
        if "mmap" not in str(error):
            raise
        loaded = load(mmap=False)
    found = dict(_name_tensors(loaded))
    if not found:
        raise ValueError("there is none in it")
    return found


def _load_safe(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def _name_tensors(value: object, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in nested dicts and lists by their dotted names."""
    import torch

    if isinstance(value, torch.Tensor):
        yield prefix or "tensor", value
        return
    items: object = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    for key, item in items:  # type: ignore[attr-defined]
        yield from _name_tensors(item, f"{prefix}.{key}" if prefix else str(key))


def _compare(
    before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]
) -> Iterator[TensorChange]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None or old.shape != new.shape:
            yield TensorChange(name=name, before=_describe(old), after=_describe(new))
        else:
            largest = _find_largest(old, new)
            if largest or old.dtype != new.dtype:
                yield TensorChange(
                    name=name, before=_describe(old), after=_describe(new), largest=largest
                )


def _describe(tensor: torch.Tensor | None) -> str:
    if tensor is None:
        return ""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _find_largest(old: torch.Tensor, new: torch.Tensor) -> float:
    """Return the largest absolute difference, a slice at a time."""
    flat = [tensor.detach().reshape(-1) for tensor in (old, new)]
    pairs = (
        [tensor[at : at + _SLICE] for tensor in flat] for at in range(0, flat[0].numel(), _SLICE)
    )
    return max((_measure(*pair) for pair in pairs), default=0.0)


def _measure(old: torch.Tensor, new: torch.Tensor) -> float:
    import torch

    wide = torch.complex128 if old.is_complex() or new.is_complex() else torch.float64
    one, other = old.to(wide), new.to(wide)
    # Equal infinities, and a NaN in the same place, are no difference; NaN alone is.
    same = (one == other) | (one.isnan() & other.isnan())
    distance = (one - other).abs().masked_fill(same, 0.0)
    return float(distance.nan_to_num(nan=math.inf, posinf=math.inf).max())
