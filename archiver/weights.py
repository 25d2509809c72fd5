"""Weight files: whether TorchServe's own handlers can load them, and what loading them would run.

TorchServe 0.12: with a model file its handlers take a state dict of any name; without one the
ending decides: `.pt` (TorchScript), `.onnx` or `.so`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from makemar.archiver.handler import Handler
from makemar.archiver.member import Member
from makemar.archiver.pickles import scan_weights
from makemar.archiver.spec import ArchiveSpec
from makemar.errors import Finding, Severity

__all__ = ["check_weight_file", "check_weight_members"]

_LOADERS = frozenset(
    {"base_handler", "image_classifier", "image_segmenter", "object_detector", "text_classifier"}
)
_ENDINGS = (".pt", ".onnx", ".so")
_SUFFIXES = frozenset({".bin", ".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pt2", ".pth", ".th"})


def check_weight_file(spec: ArchiveSpec, handler: Handler) -> Iterator[Finding]:
    """Yield what keeps TorchServe's own handlers from loading the serialized file."""
    if not handler.built_in or handler.entry not in _LOADERS or not handler.python:
        return
    if spec.model_file is not None:
        return
    fix = "name the network's file (--model-file) for a state dict, or export it to TorchScript"
    if spec.serialized_file is None:
        message = f"TorchServe's {handler.entry} has nothing to load: no weights, no model file"
        yield _error("weights-missing", message, "name them (--serialized-file)", None)
        return
    path = spec.base / spec.serialized_file
    if not path.name.endswith(_ENDINGS):
        endings = ", ".join(_ENDINGS)
        message = f"TorchServe's {handler.entry} loads {endings} only, if there is no model file"
        yield _error("weights-format", message, fix, path)
    elif path.suffix == ".pt" and path.is_file() and not _is_torchscript(path):
        message = f"TorchServe's {handler.entry} takes a .pt for TorchScript, which this is not"
        yield _error("weights-format", message, fix, path)


def check_weight_members(members: Iterable[Member]) -> Iterator[Finding]:
    """Yield what the pickles among the members would import; none is unpickled."""
    for member in members:
        if isinstance(member.source, Path) and member.source.suffix.lower() in _SUFFIXES:
            yield from scan_weights(member.source)


def _is_torchscript(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _error(code: str, message: str, fix: str, path: Path | None) -> Finding:
    return Finding(code=code, severity=Severity.ERROR, message=message, fix=fix, path=path)
