"""A network from its Python file, filled without a second copy of the weights in memory."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import torch

from makemar.handlers.errors import LoadError
from makemar.handlers.weights import load_state

__all__ = ["load_eager"]


def load_eager(model_file: str, weights: Path | None) -> torch.nn.Module:
    """Build the network class of `model_file` and give it the state dict in `weights`.

    The class is the only `torch.nn.Module` that the file defines, or the only one that it lists
    in `__all__`. Without weights it keeps the values it was built with.
    """
    kind = _network_class(model_file)
    if weights is None:
        return kind()
    state = load_state(weights)
    network = _build_on_meta(kind)
    try:
        network.load_state_dict(state, assign=True)
        if _has_meta(network):
            # Buffers outside the state dict have values only after a real construction.
            network = kind()
            network.load_state_dict(state, assign=True)
    except RuntimeError as error:
        raise LoadError(f"{weights.name} does not fit {kind.__name__}: {error}") from error
    return network


def _network_class(model_file: str) -> type[torch.nn.Module]:
    module = importlib.import_module(Path(model_file).stem)
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, torch.nn.Module)
        and value.__module__ == module.__name__
    ]
    public = [kind for kind in classes if kind.__name__ in getattr(module, "__all__", ())]
    for candidates in (public, classes):
        if len(candidates) == 1:
            return candidates[0]
    names = ", ".join(kind.__name__ for kind in classes) or "none"
    raise LoadError(
        f"{model_file}: expected one torch.nn.Module class, found {names}; "
        "name the network in __all__"
    )


def _build_on_meta(kind: type[torch.nn.Module]) -> torch.nn.Module:
    """Build the network without memory or initial values; its weights come a moment later."""
    try:
        with torch.device("meta"):
            return kind()
    except (NotImplementedError, RuntimeError):  # its constructor needs real values
        return kind()


def _has_meta(network: torch.nn.Module) -> bool:
    return any(tensor.is_meta for tensor in [*network.parameters(), *network.buffers()])
