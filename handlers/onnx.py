"""An ONNX model, called like a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from makemar.handlers.errors import LoadError

__all__ = ["OnnxModel"]


class OnnxModel:
    """Run an ONNX file with onnxruntime: tensors in (by place or by name), tensors out.

    One output is a tensor, several are a tuple in the model's order. `threads` are onnxruntime's
    own. Raises `LoadError` when onnxruntime is missing or cannot read the file.
    """

    def __init__(self, path: Path, device: torch.device, *, threads: int | None) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise LoadError(
                f"{path.name} needs the package onnxruntime; add it to requirements.txt"
            ) from error
        options = onnxruntime.SessionOptions()
        if threads is not None:
            options.intra_op_num_threads = threads
        providers = ["CPUExecutionProvider"]
        if device.type == "cuda":
            providers.insert(0, "CUDAExecutionProvider")
        try:
            self._session: Any = onnxruntime.InferenceSession(
                str(path), options, providers=providers
            )
        except Exception as error:  # onnxruntime's errors share no public base
            raise LoadError(f"{path.name} cannot be loaded by onnxruntime: {error}") from error
        self._inputs = [entry.name for entry in self._session.get_inputs()]

    def __call__(self, *tensors: torch.Tensor, **named: torch.Tensor) -> Any:
        """Run the model on a batch."""
        feed = {**dict(zip(self._inputs, tensors)), **named}
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in feed.items()}
        outputs = [torch.from_numpy(array) for array in self._session.run(None, arrays)]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
