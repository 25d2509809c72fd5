"""Programs that torch has made of a network: TorchScript, torch.export, AOTInductor."""

from __future__ import annotations

import inspect
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from makemar.handlers.errors import LoadError

__all__ = ["load_program"]


def load_program(weights: Path, device: torch.device) -> Any:
    """Load a TorchScript archive, a `torch.export` program or an AOTInductor package.

    Returns None for a file that is none of them. Raises `LoadError` that names the file, and both
    devices where the program belongs to another one and cannot leave it.
    """
    names = _members(weights)
    try:
        if any("/data/aotinductor/" in name for name in names):
            return _load_aot_inductor(weights, device)
        if any(name.endswith(("/models/model.json", "serialized_exported_program.json"))
               for name in names):  # fmt: skip
            return _moved(torch.export.load(weights), device, weights.name).module()
        if any(name.endswith("/constants.pkl") for name in names):
            return _load_torchscript(weights, device)
    except LoadError:
        raise
    except (RuntimeError, ValueError, KeyError) as error:
        raise LoadError(f"{weights.name} cannot be loaded: {error}") from error
    return None


def _members(path: Path) -> list[str]:
    """List what is inside: every format of torch is a zip, told apart by its members."""
    if not zipfile.is_zipfile(path):
        return []
    with zipfile.ZipFile(path) as archive:
        # AOTInductor packages have no common top folder.
        return [f"/{name}" for name in archive.namelist()]


def _load_torchscript(weights: Path, device: torch.device) -> Any:
    with warnings.catch_warnings():
        # torch deprecates the format for new models; those that exist still have to run.
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.load(str(weights), map_location=device)  # type: ignore[no-untyped-call]


def _moved(program: Any, device: torch.device, name: str) -> Any:
    """Bring a program to `device`: its weights, and the tensors that it makes on the way."""
    devices = _devices(program)
    # What was exported on an accelerator may do some of its work on the CPU.
    others = sorted(
        str(d) for d in devices if d != device and (d.type != "cpu" or device not in devices)
    )
    if not others:
        return program
    try:
        from torch.export.passes import move_to_device_pass
    except ImportError as error:
        raise LoadError(
            f"{name} was exported on {others[0]} and is to run on {device}; export it there (this "
            "torch cannot move it), or set handler.device"
        ) from error
    try:
        return move_to_device_pass(program, device)
    except Exception as error:
        raise LoadError(
            f"{name} was exported on {others[0]} and cannot be moved to {device}: {error}"
        ) from error


def _devices(program: Any) -> set[torch.device]:
    """Return the devices that a program names or lies on."""
    held = [*program.state_dict.values(), *program.constants.values()]
    named = [
        node.kwargs["device"]
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.kwargs.get("device") is not None
    ]
    return {value.device for value in held if isinstance(value, torch.Tensor)} | {
        torch.device(device) for device in named
    }


def _load_aot_inductor(weights: Path, device: torch.device) -> Any:
    load = getattr(torch._inductor, "aoti_load_package", None)
    if load is None:
        raise LoadError(f"{weights.name} is an AOTInductor package; it needs torch 2.6 or newer")
    # Without its number a CUDA device is the current one, which all workers would share.
    placed = device.index is not None and "device_index" in inspect.signature(load).parameters
    model = load(str(weights), **({"device_index": device.index} if placed else {}))
    metadata = model.get_metadata() if hasattr(model, "get_metadata") else {}
    built_for = metadata.get("AOTI_DEVICE_KEY", device.type)
    if built_for != device.type:
        raise LoadError(
            f"{weights.name} was compiled for {built_for} and is to run on {device}; compile it "
            "for that device, or set handler.device"
        )
    return model
