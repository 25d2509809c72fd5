"""The handler of a spec as it was written: a file, a module, or the name of a ready one."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from makemar.errors import ArchiveError

__all__ = ["BUILT_IN_HANDLERS", "FAMILIES", "FAMILY_MODULE", "Handler", "resolve_handler"]

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
FAMILY_MODULE = "makemar.handlers"
# makemar's handlers that serve as they are; a test holds them equal to those there are.
FAMILIES = {
    "image_classifier": "ImageClassifier",
    "image_segmenter": "ImageSegmenter",
    "object_detector": "ObjectDetector",
    "tensor_handler": "TensorHandler",
    "text_classifier": "TextClassifier",
    "text_embedder": "TextEmbedder",
    "text_generator": "TextGenerator",
    "token_classifier": "TokenClassifier",
    "voice_activity": "VoiceActivity",
}
_FORMS = "handler.py, handler.py:function, handler.py:Class, package.module:Class"


@dataclass(frozen=True, kw_only=True)
class Handler:
    """A handler, by its name alone: no file has been opened.

    `entry` is what TorchServe calls it. `file` is the source as the spec wrote it, its ending
    added; `module` is a dotted name instead. A built-in one has neither. `name` is the function or
    class that was named in it, empty if none was. `python` is False for the C++ backend's shared
    libraries.
    """

    entry: str
    file: Path | None = None
    module: str = ""
    name: str = ""
    python: bool = True

    @property
    def built_in(self) -> bool:
        """Tell whether TorchServe brings the handler."""
        return self.file is None and not self.module


def resolve_handler(text: str, runtime: str = "python", base: Path = Path()) -> Handler:
    """Resolve what a spec calls its handler; relative files are looked for from `base`.

    A built-in name is TorchServe's own handler, as torch-model-archiver has it. `makemar.NAME` is
    the family of makemar; NAME alone will do where TorchServe has none of that name and no file
    is called so. `package.module` is found from `base`, by its dots; anything else is a file,
    which TorchServe 0.12 imports from the root of the archive by the last part of its path.

    Raises ArchiveError if nothing is named, or no such family.
    """
    if runtime == "LSP":
        return _resolve_file(text, ".so") if text not in _BUILT_IN_LSP else _native(text)
    if text in BUILT_IN_HANDLERS:
        return Handler(entry=text)
    path, colon, name = text.partition(":")
    if not colon and (family := _find_family(path, base)):
        return Handler(entry=text, module=FAMILY_MODULE, name=family)
    if path.partition(".")[0] == "makemar" and not path.endswith(".py") and "/" not in path:
        if not name:
            raise ArchiveError(f"handler {text!r}: {_hint_family(path)}")
        return Handler(entry=text, module=path, name=name)
    if _is_module(path, base) and bool(colon) == bool(name):
        return Handler(entry=text, module=path, name=name)
    return _resolve_file(text, ".py")


def _native(text: str) -> Handler:
    return Handler(entry=text, python=False)


def _resolve_file(text: str, ending: str) -> Handler:
    path, colon, name = text.partition(":")
    last = path.rpartition("/")[2]
    if not last or (colon and not name):
        raise ArchiveError(
            f"handler {text!r} names nothing; write {_FORMS}, or one of "
            f"{', '.join(BUILT_IN_HANDLERS)}, {', '.join(f'makemar.{name}' for name in FAMILIES)}"
        )
    # Old scripts may leave the ending out, with or without a function.
    file = Path(path if ending in last else path + ending)
    return Handler(entry=last + colon + name, file=file, name=name, python=ending == ".py")


def _find_family(path: str, base: Path) -> str | None:
    family = FAMILIES.get(path.removeprefix("makemar."))
    if family and not path.startswith("makemar.") and _is_file(path, base):
        return None
    return family


def _is_module(path: str, base: Path) -> bool:
    if "/" in path or not all(path.split(".")) or ".py" in path:
        return False
    return "." in path or (not _is_file(path, base) and (base / path / "__init__.py").is_file())


def _is_file(path: str, base: Path) -> bool:
    return (base / f"{path}.py").is_file()


def _hint_family(path: str) -> str:
    close = difflib.get_close_matches(path.removeprefix("makemar."), FAMILIES, n=1)
    if close:
        return f"did you mean 'makemar.{close[0]}'?"
    names = ", ".join(f"makemar.{name}" for name in FAMILIES)
    return f"makemar's are {names}, and {FAMILY_MODULE}:Class"
