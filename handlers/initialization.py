"""Random first values of parameters, put off until something reads them; mostly nothing does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["RandomInitPutOff"]

# What a mode sees of torch.nn.init, and what the rest of it is made of.
_RANDOM = frozenset({"uniform_", "normal_", "kaiming_uniform_", "kaiming_normal_"})
# What looks at shape, type or device alone, and returns no tensor that shares memory.
_NOT_OF_VALUES = frozenset(
    {"__len__", "dim", "size", "numel", "stride", "is_contiguous", "new_empty", "new_zeros"}
    | {"new_ones", "empty_like", "zeros_like", "ones_like", "is_floating_point", "is_complex"}
    | {"element_size", "requires_grad_", "register_hook"}
)
_ATTRIBUTES_NOT_OF_VALUES = frozenset(
    {"shape", "ndim", "dtype", "device", "layout", "requires_grad", "is_leaf", "grad_fn", "names"}
    | {"is_cpu", "is_cuda", "is_meta", "is_mps", "is_xpu", "is_sparse", "is_quantized"}
    | {"is_nested", "itemsize", "nbytes"}
)
_Call = tuple[Any, Sequence[Any], Mapping[str, Any]]


class RandomInitPutOff(TorchFunctionMode):
    """Put random values for parameters off until something reads them.

    A file is about to replace them, and memory that was never written to costs nothing.
    Everything else is built as written: constants, buffers and tensors outside the state dict
    need their real values. A parameter that was read may live on in a tensor or an array that
    shares its memory, so from then on its values are real too.
    """

    def __init__(self) -> None:
        super().__init__()
        # By address, so that a parameter is found through whatever shares its memory. The calls,
        # and the tensors read, are kept: no other may get their address.
        self._put_off: dict[int, list[_Call]] = {}
        self._read: dict[int, torch.Tensor] = {}
        self._seed = torch.initial_seed()

    def make_up(self, *, but: Collection[torch.Tensor] = ()) -> None:
        """Give every parameter the values it should have by now, `but` those to be replaced."""
        for address in set(self._put_off) - {_address(tensor) for tensor in but}:
            self._run(address)

    def was_read(self, parameter: torch.Tensor) -> bool:
        """Tell whether something may share this parameter's memory."""
        return _address(parameter) in self._read

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Put off what fills a parameter and what changes it after that; do the rest."""
        kwargs = kwargs or {}
        if not _is_of_values(func):
            return func(*args, **kwargs)
        # torch.nn.init hands its tensor on by name, tensors' own methods by place.
        target = args[0] if args else kwargs.get("tensor")
        if isinstance(target, torch.nn.Parameter) and self._can_wait(func, target, args, kwargs):
            self._put_off.setdefault(_address(target), []).append((func, args, kwargs))
            return target
        for tensor in _tensors((args, kwargs)):
            self._use(tensor)
        return func(*args, **kwargs)

    def _can_wait(
        self, func: Any, target: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> bool:
        address = _address(target)
        if not address or address in self._read or target.device.type != "cpu":
            return False
        name = func.__name__
        if name in _RANDOM:
            # Who seeds counts on each number; one left out would change all that follow.
            seeded = kwargs.get("generator") is not None or torch.initial_seed() != self._seed
            if seeded:
                return False
        elif address not in self._put_off or not name.endswith("_") or name.endswith("__"):
            return False
        # Another tensor may have other values by the time that the call is made up.
        return all(tensor is target for tensor in _tensors((args, kwargs)))

    def _use(self, tensor: torch.Tensor) -> None:
        address = _address(tensor)
        if address in self._put_off:
            self._run(address)
        elif not isinstance(tensor, torch.nn.Parameter):
            return
        self._read[address] = tensor

    def _run(self, address: int) -> None:
        with torch.no_grad():
            for func, args, kwargs in self._put_off.pop(address):
                func(*args, **kwargs)


def _is_of_values(func: Any) -> bool:
    """Tell whether a function reads or writes values, or returns something that could."""
    name = getattr(func, "__name__", "")
    if name in ("__get__", "__set__"):
        # The function is bound to the attribute's descriptor.
        attribute = getattr(getattr(func, "__self__", None), "__name__", "")
        return attribute not in _ATTRIBUTES_NOT_OF_VALUES
    return name not in _NOT_OF_VALUES


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Find the tensors in arguments, and in the lists and dicts among them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(tuple(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _address(tensor: Any) -> int:
    """Return where a tensor's memory begins, or 0 where it has none of its own kind."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (AttributeError, NotImplementedError, RuntimeError, ValueError):
        return 0  # sparse, or not made yet
