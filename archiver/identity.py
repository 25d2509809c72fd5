"""What a model is called: the rules for its name, version, runtime and handler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from makemar.archiver.handler import Handler
from makemar.archiver.spec import ArchiveSpec
from makemar.configs import RUNTIMES
from makemar.errors import Finding, Severity

__all__ = ["check_identity", "is_addressable", "is_writable"]

# torch-model-archiver's rule, without the trailing newline that its `$` lets through.
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Control characters, and the bytes of a file name that is not UTF-8: no URL can hold them.
_UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def is_addressable(name: str) -> bool:
    """Tell whether a server can be asked about a model, or a version, of this name.

    TorchServe 0.12: it registers any name, but decodes `%2F` before it splits the path; clients
    and proxies take `.` and `..` for folders.
    """
    return name not in ("", ".", "..") and "/" not in name and is_writable(name)


def is_writable(name: str) -> bool:
    """Tell whether a name can be shown, and written as UTF-8."""
    return _UNWRITABLE.search(name) is None


def _is_version(text: str) -> bool:
    # TorchServe 0.12: "all" means every version where a model is described.
    return is_addressable(text) and text != "all" and re.search(r"\s", text) is None


def check_identity(spec: ArchiveSpec, handler: Handler | None) -> Iterator[Finding]:
    """Yield what is wrong with the model's name, version, runtime and handler name."""
    if not _MODEL_NAME.fullmatch(spec.model_name):
        yield _error(
            "model-name",
            f"model name {spec.model_name!r} cannot name a model",
            "use letters, digits, '_', '.' and '-' alone, and start with a letter or digit",
        )
    elif ".." in f"{spec.model_name}.":
        yield _error(
            "model-name",
            f"model name {spec.model_name!r} makes a file name with '..' in it, which TorchServe "
            "does not load",
            "put no two dots side by side, and none at the end",
        )
    if not _is_version(spec.version):
        yield _error(
            "version",
            f"version {spec.version!r} cannot be part of the management API's URLs",
            "write one like 1.0, without '/', blanks and control characters; 'all' is taken",
        )
    if spec.runtime not in RUNTIMES:
        yield _error(
            "runtime",
            f"runtime {spec.runtime!r} is not one of TorchServe's",
            f"write one of {', '.join(RUNTIMES)}",
        )
    if spec.runtime == "python3":
        yield Finding(
            code="runtime-python3",
            severity=Severity.WARNING,
            message="runtime 'python3' runs whatever python3 the server finds on its PATH",
            fix="write 'python': the interpreter that TorchServe itself runs in",
        )
    if spec.runtime == "LSP":
        yield Finding(
            code="runtime-lsp",
            severity=Severity.WARNING,
            message="runtime 'LSP' needs a server with the C++ backend, which no wheel brings",
            fix="write 'python', or silence this if the server is built with it",
        )
    if handler is not None and handler.file is not None and handler.python:
        yield from _check_handler_name(handler.file)


def _check_handler_name(file: Path) -> Iterator[Finding]:
    if file.suffix != ".py" or "." in file.stem:
        yield _error(
            "handler-name",
            f"handler file {file.name!r} cannot be imported: a dot in the name means a package",
            "rename it to NAME.py",
            file,
        )


def _error(code: str, message: str, fix: str, path: Path | None = None) -> Finding:
    return Finding(code=code, severity=Severity.ERROR, message=message, fix=fix, path=path)
