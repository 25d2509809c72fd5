"""A model from the files of an archive, whatever format they have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from makemar.handlers.eager import load_eager
from makemar.handlers.errors import LoadError
from makemar.handlers.onnx import OnnxModel
from makemar.handlers.preparation import prepare
from makemar.handlers.programs import load_program
from makemar.handlers.settings import HandlerSettings
from makemar.handlers.weights import is_safetensors

__all__ = ["load_model"]


def load_model(
    model_dir: Path, model: Mapping[str, Any], device: torch.device, settings: HandlerSettings
) -> Any:
    """Load what the manifest's `model` section names and make it ready to run on `device`.

    With `modelFile`: the network of that file, filled from `serializedFile` (a state dict or
    safetensors). Without, by what `serializedFile` is: TorchScript, a `torch.export` program or
    AOTInductor package (`.pt2`), ONNX, and a pickled network only with
    `handler.unsafe_pickle: true`. Raises `LoadError` that names the file and the reason.
    """
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    serialized, model_file = model.get("serializedFile"), model.get("modelFile")
    weights = model_dir / serialized if serialized else None
    if weights is not None and not weights.is_file():
        raise LoadError(f"{weights.name}: the weights named in the manifest are not in the archive")
    if model_file:
        return prepare(load_eager(model_file, weights), device, settings)
    if weights is None:
        raise LoadError(
            "the archive names neither a model file nor a serialized file; "
            "pack one of them, or load the model in initialize()"
        )
    return prepare(_load_serialized(weights, device, settings), device, settings)


def _load_serialized(weights: Path, device: torch.device, settings: HandlerSettings) -> Any:
    if weights.suffix == ".onnx":
        return OnnxModel(weights, device, threads=settings.threads)
    program = load_program(weights, device)
    if program is not None:
        return program
    if settings.unsafe_pickle:
        return _load_pickle(weights)
    hint = "" if not is_safetensors(weights) else " (safetensors hold weights alone)"
    raise LoadError(
        f"{weights.name} is not a TorchScript archive, exported program or ONNX model{hint}; pack "
        "the network's Python file beside a state dict (--model-file), or, for a pickled network "
        "that you trust to run code, set handler.unsafe_pickle: true"
    )


def _load_pickle(weights: Path) -> Any:
    """Unpickle a whole network; its file can run any code, so the settings must ask for it."""
    try:
        network = torch.load(weights, map_location="cpu", weights_only=False)
    except Exception as error:
        raise LoadError(f"{weights.name} cannot be unpickled: {error}") from error
    if not callable(network):
        raise LoadError(f"{weights.name} holds a {type(network).__name__}, not a network")
    return network
