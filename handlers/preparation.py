"""A loaded network made ready to run: device, precision, memory layout, compilation."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from makemar.handlers.dtypes import DTYPES
from makemar.handlers.errors import LoadError
from makemar.handlers.settings import HandlerSettings
from makemar.handlers.tensors import apply

__all__ = ["place_inputs", "prepare"]


def place_inputs(batch: Any, device: torch.device | None, settings: HandlerSettings) -> Any:
    """Bring every tensor of a batch to the model's device, precision and memory layout."""
    dtype = DTYPES[settings.dtype]
    plain = dtype is torch.float32 and not settings.channels_last
    if plain and isinstance(batch, torch.Tensor) and batch.device == device:
        return batch  # what most forwards of small models find

    def place(tensor: torch.Tensor) -> torch.Tensor:
        # Only a wish changes precision: a model may expect float64 or int64 inputs.
        casts = dtype is not torch.float32 and tensor.is_floating_point()
        tensor = tensor.to(device, dtype if casts else tensor.dtype)
        if settings.channels_last and tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        return tensor

    return apply(place, batch)


def prepare(network: Any, device: torch.device, settings: HandlerSettings) -> Any:
    """Move a network to its device and apply `dtype`, `channels_last`, `quantize`, `compile`.

    Programs that are compiled already (AOTInductor) or fixed (torch.export, ONNX) were loaded where
    they run and take none of these; asking for one raises `LoadError`.
    """
    if not isinstance(network, torch.nn.Module) or isinstance(network, torch.fx.GraphModule):
        _refuse_changes(network, settings)
        return network
    network = network.to(device).eval()
    # A float32 network may hold half-precision weights on purpose; only a wish changes them.
    if settings.dtype != "float32":
        network = network.to(DTYPES[settings.dtype])
    if settings.channels_last:
        network = network.to(memory_format=torch.channels_last)
    if settings.quantize is not None:
        network = _quantize(network, device)
    if settings.compile is not None:
        mode = None if settings.compile == "default" else settings.compile
        network = torch.compile(network, mode=mode)
    return network


def _refuse_changes(network: Any, settings: HandlerSettings) -> None:
    asked = {
        "dtype": settings.dtype != "float32",
        "channels_last": settings.channels_last,
        "quantize": settings.quantize is not None,
        "compile": settings.compile is not None,
    }
    for name, wanted in asked.items():
        if wanted:
            raise LoadError(
                f"handler.{name} cannot change a fixed program ({type(network).__name__}); export "
                "the model that way, or leave the setting out"
            )


def _quantize(network: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """Turn linear layers into dynamic int8: weights once, activations on each call."""
    if device.type != "cpu":
        raise LoadError(f"handler.quantize: dynamic int8 runs on CPU only, not on {device}")
    with warnings.catch_warnings():
        # torch moves its quantization to another package; this part works in 2.4 to 2.13.
        warnings.simplefilter("ignore")
        quantized: torch.nn.Module = torch.ao.quantization.quantize_dynamic(  # type: ignore[no-untyped-call]
            network, {torch.nn.Linear}, dtype=torch.qint8
        )
    return quantized
