"""State dicts: torch's own files and safetensors, whole or in shards, never code."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch

from makemar.handlers.errors import LoadError

__all__ = ["is_safetensors", "load_state"]

_INDEX = ".safetensors.index.json"


def is_safetensors(weights: Path) -> bool:
    """Tell a safetensors file, or the index of a sharded one, by its name."""
    return weights.name.endswith((".safetensors", _INDEX))


def load_state(weights: Path) -> Mapping[str, torch.Tensor]:
    """Read a state dict on the CPU, memory-mapped where the format can be.

    Mapped tensors take memory once, when they are used; read ones would take it twice until the
    network has its copy. Raises `LoadError` that names the file and the reason.
    """
    if weights.name.endswith(_INDEX):
        return _load_shards(weights)
    if is_safetensors(weights):
        return _load_safetensors(weights)
    try:
        # Memory mapping needs torch's zip format; older files are read the old way.
        state = torch.load(
            weights, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(weights)
        )
    except Exception as error:
        raise LoadError(
            f"{weights.name} is not a state dict that loads with weights_only: {error}; "
            "save it with torch.save(model.state_dict(), ...)"
        ) from error
    if not isinstance(state, Mapping):
        raise LoadError(f"{weights.name} holds a {type(state).__name__}, not a state dict")
    return state


def _load_safetensors(weights: Path) -> Mapping[str, torch.Tensor]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise LoadError(
            f"{weights.name} needs the package safetensors; add it to requirements.txt"
        ) from error
    try:
        state: Mapping[str, torch.Tensor] = load_file(weights)
    except (SafetensorError, OSError) as error:
        raise LoadError(f"{weights.name} is not a safetensors file: {error}") from error
    return state


def _load_shards(index: Path) -> Mapping[str, torch.Tensor]:
    """Join the shards that an index names (`weight_map`: tensor → file beside the index)."""
    try:
        shard_of = dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
    except (ValueError, KeyError, TypeError) as error:
        raise LoadError(f"{index.name} is no index of shards: it has no weight_map") from error
    state: dict[str, torch.Tensor] = {}
    for name in sorted({Path(str(shard)).name for shard in shard_of.values()}):
        shard = index.parent / name
        if not shard.is_file():
            raise LoadError(f"{name}: {index.name} names it, but it is not in the archive")
        state.update(_load_safetensors(shard))
    missing = sorted(set(shard_of) - set(state))
    if missing:
        raise LoadError(f"{index.name}: no shard holds {missing[0]!r}, though the index says so")
    return state
