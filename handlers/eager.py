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
# Functions that look at shape, type or device alone; `__get__` is what attributes go through.
_NOT_OF_VALUES = frozenset(
    {"__get__", "__len__", "dim", "size", "numel", "stride", "is_contiguous", "new_tensor"}
    | {"new_empty", "new_zeros", "new_ones", "new_full", "empty_like", "zeros_like", "ones_like"}
    | {"is_floating_point", "is_complex", "element_size", "requires_grad_", "register_hook"}
)
_Call = tuple[Any, Sequence[Any], Mapping[str, Any]]


class _NoRandomInit(TorchFunctionMode):
    """Put random values for parameters off until something reads them; mostly nothing does.

    A file is about to replace them, and memory that was never written to costs nothing.
    Everything else is built as written: constants, buffers and tensors outside the state dict
    need their real values.
    """

    def __init__(self) -> None:
        super().__init__()
        # By identity; the calls hold the parameter, so that no other can get its id.
        self._put_off: dict[int, list[_Call]] = {}

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Put off what fills a parameter and what changes it after that; do the rest."""
        kwargs = kwargs or {}
        # torch.nn.init hands its tensor on by name, tensors' own methods by place.
        target = args[0] if args else kwargs.get("tensor")
        name = getattr(func, "__name__", "")
        if isinstance(target, torch.nn.Parameter) and target.device.type == "cpu":
            changes = name.endswith("_") and not name.endswith("__")
            if name in _RANDOM or (changes and id(target) in self._put_off):
                self._put_off.setdefault(id(target), []).append((func, args, kwargs))
                return target
        if name not in _NOT_OF_VALUES:
            for value in (*args, *kwargs.values()):
                self._make_up(value)
        return func(*args, **kwargs)

    def _make_up(self, value: Any) -> None:
        """Give a parameter the values it should have by now."""
        with torch.no_grad():
            for func, args, kwargs in self._put_off.pop(id(value), ()):
                func(*args, **kwargs)
