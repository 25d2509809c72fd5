"""The handler of a spec: what the manifest calls it, and the file that holds it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from makemar.errors import ArchiveError

__all__ = ["BUILT_IN_HANDLERS", "Handler", "resolve_handler"]

# TorchServe 0.12: the names that torch-model-archiver passes on without looking for a file.
BUILT_IN_HANDLERS = (
    "base_handler",
    "dali_image_classifier",
    "image_classifier",
    "image_segmenter",
    "object_detector",
    "text_classifier",
    "trt_llm_handler",
    "vllm_handler",
)
_BUILT_IN_LSP = ("BaseHandler", "TorchScriptHandler")


@dataclass(frozen=True, kw_only=True)
class Handler:
    """A handler, resolved.

    `entry` goes into the manifest. `file` is the source as the spec wrote it, its ending added;
    None for a built-in. `function` is the entry function that was named, empty if none was.
    `python` is False for the C++ backend's shared libraries.
    """

    entry: str
    file: Path | None = None
    function: str = ""
    python: bool = True


def resolve_handler(text: str, runtime: str = "python") -> Handler:
    """Resolve `file.py`, `file.py:function`, `file`, `file:function` or a built-in name.

    TorchServe 0.12 keeps only the last path component of a handler and imports it from the root of
    the archive, so the manifest gets the file's name alone. Raises ArchiveError if nothing is
    named.
    """
    python = runtime != "LSP"
    if text in (BUILT_IN_HANDLERS if python else _BUILT_IN_LSP):
        return Handler(entry=text, python=python)
    path, colon, function = text.partition(":")
    name = path.rpartition("/")[2]
    if not name or (colon and not function):
        raise ArchiveError(
            f"handler {text!r} names nothing; write handler.py, handler.py:function or one of "
            f"{', '.join(BUILT_IN_HANDLERS)}"
        )
    ending = ".py" if python else ".so"
    # Old scripts may leave the ending out, with or without a function.
    file = Path(path if ending in name else path + ending)
    return Handler(entry=name + colon + function, file=file, function=function, python=python)
