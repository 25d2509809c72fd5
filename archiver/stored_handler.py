"""Whether a worker finds and can use the handler in an archive that somebody made.

TorchServe 0.12: of `a/b.py:f` it imports `b`, from the model's directory and, when there is a
colon, from its folder `a` as well; where that fails, a module of its own of that name.
"""

from __future__ import annotations

import ast
import difflib
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from makemar.archiver.entry import check_handler_file, check_model_file
from makemar.archiver.fault import make_error, make_warning
from makemar.archiver.stored_manifest import StoredManifest
from makemar.archiver.stored_names import settle_name
from makemar.archiver.worker_modules import find_shadowed
from makemar.errors import Finding

__all__ = ["check_shadows", "check_stored_handler"]

# TorchServe 0.12: the modules of ts.torch_handler that hold a handler.
_SERVER_HANDLERS = (
    "base_handler",
    "dali_image_classifier",
    "densenet_handler",
    "image_classifier",
    "image_segmenter",
    "object_detector",
    "text_classifier",
    "text_handler",
    "trt_llm_handler",
    "vision_handler",
    "vllm_handler",
)
_BINARY = (".so", ".pyc")
# Of the standard library, what every worker imports on its way to the handler.
_WORKER_IMPORTS = frozenset(
    [
        "argparse",
        "ast",
        "asyncio",
        "base64",
        "bisect",
        "collections",
        "concurrent",
        "contextlib",
        "contextvars",
        "copy",
        "copyreg",
        "csv",
        "ctypes",
        "dataclasses",
        "datetime",
        "dis",
        "email",
        "enum",
        "fnmatch",
        "functools",
        "glob",
        "hashlib",
        "heapq",
        "http",
        "inspect",
        "json",
        "keyword",
        "linecache",
        "locale",
        "logging",
        "multiprocessing",
        "operator",
        "pathlib",
        "pickle",
        "pkgutil",
        "platform",
        "queue",
        "random",
        "re",
        "reprlib",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "string",
        "struct",
        "subprocess",
        "tempfile",
        "textwrap",
        "threading",
        "token",
        "tokenize",
        "traceback",
        "types",
        "typing",
        "urllib",
        "uuid",
        "warnings",
        "weakref",
        "zipfile",
    ]
)
# A copy of a whole package may do for the worker, a file of that name never.
_WORKER_PACKAGES = frozenset(["PIL", "numpy", "packaging", "psutil", "yaml"])
_NEVER_OURS = frozenset({"torch", "torchgen", "ts"})


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """A handler's text, taken apart."""

    text: str

    @property
    def file(self) -> str:
        return self.text.partition(":")[0]

    @property
    def function(self) -> str:
        return self.text.partition(":")[2]

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").rpartition("/")[2]

    @property
    def folders(self) -> tuple[str, ...]:
        folder = self.file.rpartition("/")[0] if ":" in self.text else ""
        return (f"{settle_name(folder)}/", "") if folder else ("",)


def check_shadows(members: Mapping[str, object], path: Path) -> Iterator[Finding]:
    """Yield the members that replace modules of the worker: errors where it dies of that."""
    for name, module in find_shadowed(members).items():
        package = "/" in name
        fatal = (
            module in _WORKER_IMPORTS
            or module in _NEVER_OURS
            or (module in _WORKER_PACKAGES and not package)
        )
        if module in sys.builtin_module_names:
            continue  # those come before any file
        make = make_error if fatal else make_warning
        message = f"{name!r} replaces the module {module!r} that the worker itself may import"
        yield make("shadowed-module", message, path, fix="rename it, or put it into a folder")


def check_stored_handler(
    manifest: StoredManifest, members: Mapping[str, object], texts: Mapping[str, bytes], path: Path
) -> Iterator[Finding]:
    """Yield what keeps a worker from loading the handler; `texts` are the sources at hand."""
    entry = _Entry(text=manifest.text("handler"))
    if not entry.module:
        yield make_error("no-handler", "the manifest has no model.handler", path)
        return
    if manifest.top.get("runtime") == "LSP":
        return
    if entry.module in sys.builtin_module_names:
        message = f"handler {entry.text!r} is a module of Python itself, which comes first"
        yield make_error("handler-name", message, path, fix="rename the file")
        return
    name = _find_module(entry, members)
    if name is None:
        yield from _check_elsewhere(entry, manifest, members, texts, path)
    elif not name.endswith(_BINARY):
        if entry.file in _SERVER_HANDLERS:
            message = f"{name!r} beats TorchServe's handler of that name"
            yield make_warning("shadowed-handler", message, path, fix="rename it if that is wrong")
        tree = _parse(name, texts, path)
        if isinstance(tree, ast.Module):
            yield from check_handler_file(tree, path / name, entry.function)
        elif tree is not None:
            yield tree


def _find_module(entry: _Entry, members: Mapping[str, object]) -> str | None:
    """Return the member that Python would import, None if there is none."""
    place = entry.module.replace(".", "/")
    for folder in entry.folders:
        for stem in (f"{folder}{place}/__init__", f"{folder}{place}"):
            for member in (f"{stem}.py", f"{stem}.pyc"):
                if member in members:
                    return member
            for member in members:
                if member.startswith(f"{stem}.") and member.endswith(".so"):
                    return member
    return None


def _check_elsewhere(
    entry: _Entry,
    manifest: StoredManifest,
    members: Mapping[str, object],
    texts: Mapping[str, bytes],
    path: Path,
) -> Iterator[Finding]:
    """Judge a handler that is not in the archive: TorchServe's own, installed, or lost."""
    if entry.text in _SERVER_HANDLERS:
        yield from _check_model_file(manifest, texts, path)
        return
    top = entry.module.partition(".")[0]
    own = any(name.startswith((f"{top}/", f"{top}.")) for name in members)
    if "." in entry.module and not own and not entry.file.endswith(".py"):
        message = f"handler {entry.text!r} is not in the archive; the server must have it installed"
        yield make_warning("handler-elsewhere", message, path)
        return
    stray = settle_name(entry.file if entry.file.endswith(".py") else f"{entry.file}.py")
    if stray in members:
        message = f"TorchServe does not find {stray!r} by the handler {entry.text!r}"
        fix = f"write {stray.removesuffix('.py').replace('/', '.')!r}, the module's dotted name"
    else:
        message = f"handler {entry.text!r} is not in the archive"
        close = difflib.get_close_matches(entry.text, _SERVER_HANDLERS, n=1)
        fix = f"did you mean {close[0]!r}?" if close else "pack it again with its handler"
    yield make_error("missing-handler", message, path, fix=fix)


def _check_model_file(
    manifest: StoredManifest, texts: Mapping[str, bytes], path: Path
) -> Iterator[Finding]:
    name = manifest.text("modelFile")
    if "/" in name:
        message = f"TorchServe's handlers import the model file {name!r} from the root only"
        yield make_error("model-file-path", message, path, fix="put it into the root")
    elif name:
        tree = _parse(name, texts, path)
        if isinstance(tree, ast.Module):
            yield from check_model_file(tree, path / name)
        elif tree is not None:
            yield tree


def _parse(name: str, texts: Mapping[str, bytes], path: Path) -> ast.Module | Finding | None:
    """Parse a member, never run it; None if its text is not at hand."""
    if name not in texts:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(texts[name], filename=name)
    except SyntaxError as error:
        reason, line = error.msg, error.lineno or None
    except (ValueError, RecursionError, MemoryError) as error:
        reason, line = str(error) or type(error).__name__, None
    fix = "correct that line and pack it again"
    return make_error(
        "syntax-error", f"not valid Python: {reason}", path / name, fix=fix, line=line
    )
