"""A model from the files of an archive: TorchScript, or a model file with its weights."""

from __future__ import annotations

import importlib
import inspect
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from makemar.handlers.errors import LoadError
from makemar.handlers.settings import HandlerSettings

__all__ = ["load_model"]


def load_model(
    model_dir: Path, model: Mapping[str, Any], device: torch.device, settings: HandlerSettings
) -> Any:
    """Load what the manifest's `model` section names, in evaluation mode, on `device`.

    With `modelFile`: the one `torch.nn.Module` class of that file, filled from `serializedFile`
    if there is one (a state dict, read with `weights_only`). Without: a TorchScript archive.
    Raises `LoadError` that names the file and the reason.
    """
    serialized, model_file = model.get("serializedFile"), model.get("modelFile")
    weights = model_dir / serialized if serialized else None
    if weights is not None and not weights.is_file():
        raise LoadError(f"{weights.name}: the weights named in the manifest are not in the archive")
    if model_file:
        network = _load_eager(_model_class(model_file), weights)
    elif weights is not None:
        network = _load_torchscript(weights, device)
    else:
        raise LoadError(
            "the archive names neither a model file nor a serialized file; "
            "pack one of them, or load the model in initialize()"
        )
    return network.to(device).eval()


def _model_class(model_file: str) -> type[torch.nn.Module]:
    module = importlib.import_module(Path(model_file).stem)
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, torch.nn.Module)
        and value.__module__ == module.__name__
    ]
    # Building blocks are modules too; the network is the one that the others do not inherit
    # from and that the file lists in __all__, or simply the only one.
    public = [c for c in classes if c.__name__ in getattr(module, "__all__", ())]
    if len(public) == 1:
        return public[0]
    if len(classes) == 1:
        return classes[0]
    names = ", ".join(c.__name__ for c in classes) or "none"
    raise LoadError(
        f"{model_file}: expected one torch.nn.Module class, found {names}; "
        "name the network in __all__"
    )


def _load_eager(kind: type[torch.nn.Module], weights: Path | None) -> torch.nn.Module:
    if weights is None:
        return kind()
    state = _load_state(weights)
    try:
        network = _on_meta(kind)
        network.load_state_dict(state, assign=True)
    except RuntimeError as error:
        raise LoadError(f"{weights.name} does not fit {kind.__name__}: {error}") from error
    if _has_meta(network):
        # Buffers that are not in the state dict hold values only after a real construction.
        network = kind()
        network.load_state_dict(state, assign=True)
    return network


def _on_meta(kind: type[torch.nn.Module]) -> torch.nn.Module:
    """Build the network without memory for its weights; they come from the file a moment later."""
    try:
        with torch.device("meta"):
            return kind()
    except (NotImplementedError, RuntimeError):  # its constructor needs real values
        return kind()


def _has_meta(network: torch.nn.Module) -> bool:
    tensors = [*network.parameters(), *network.buffers()]
    return any(tensor.is_meta for tensor in tensors)


def _load_state(weights: Path) -> Mapping[str, torch.Tensor]:
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


def _load_torchscript(weights: Path, device: torch.device) -> Any:
    if not _is_torchscript(weights):
        raise LoadError(
            f"{weights.name} is not a TorchScript archive; pack the network's Python file "
            "beside a state dict (--model-file), or save with torch.jit.save"
        )
    try:
        with warnings.catch_warnings():
            # torch deprecates the format for new models; those that exist still have to run.
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.load(str(weights), map_location=device)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise LoadError(f"{weights.name} cannot be loaded as TorchScript: {error}") from error


def _is_torchscript(weights: Path) -> bool:
    """Tell TorchScript from a state dict: both are zips, only the first one holds code."""
    if not zipfile.is_zipfile(weights):
        return False
    with zipfile.ZipFile(weights) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())
