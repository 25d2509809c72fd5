"""A network from its Python file, filled without a second copy of the weights in memory."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from makemar.handlers.errors import LoadError
from makemar.handlers.weights import load_state

__all__ = ["load_eager"]


def load_eager(model_file: str, weights: Path | None) -> torch.nn.Module:
    """Build the network class of `model_file` and give it the state dict in `weights`.

    The class is the only `torch.nn.Module` that the file defines, or the only one that it lists
    in `__all__`. Without weights it keeps the values it was built with. Parameters keep the
    precision that the network was built in, whatever the file's.
    """
    kind = _network_class(model_file)
    if weights is None:
        return kind()
    state = load_state(weights)
    with _NoRandomInit():
        network = kind()
    try:
        # The parameters become the file's own tensors: nothing is copied.
        network.load_state_dict(_in_precision_of(network, state), assign=True)
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


def _in_precision_of(
    network: torch.nn.Module, state: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Cast tensors that the file holds in another floating point precision than the network."""
    built = network.state_dict()
    return {
        name: tensor.to(built[name].dtype)
        if name in built and tensor.is_floating_point() and built[name].is_floating_point()
        else tensor
        for name, tensor in state.items()
    }


# Functions of torch.nn.init that a mode sees, and what the others are made of.
_RANDOM = frozenset({"uniform_", "normal_", "kaiming_uniform_", "kaiming_normal_"})


class _NoRandomInit(TorchFunctionMode):
    """Leave out random values for parameters that a file is about to fill.

    Their memory stays untouched, so it costs nothing. Everything else is built as written:
    constants, buffers and tensors outside the state dict need their real values.
    """

    def __init__(self) -> None:
        super().__init__()
        self._untouched: set[int] = set()

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Skip in-place functions on a parameter from the moment it should become random."""
        # torch.nn.init hands its tensor on by name, tensors' own methods by place.
        target = args[0] if args else (kwargs or {}).get("tensor")
        if isinstance(target, torch.nn.Parameter):
            name = getattr(func, "__name__", "")
            if name in _RANDOM and target.device.type == "cpu":
                self._untouched.add(id(target))
            if id(target) in self._untouched and name.endswith("_") and not name.endswith("__"):
                return target
        return func(*args, **(kwargs or {}))
