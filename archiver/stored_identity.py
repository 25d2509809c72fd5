"""What an archive that somebody made says it is: name, version, runtime, and files it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from makemar.archiver.fault import make_error, make_warning
from makemar.archiver.identity import is_addressable
from makemar.archiver.stored_manifest import StoredManifest
from makemar.archiver.stored_names import settle_name
from makemar.configs import RUNTIMES
from makemar.errors import Finding

__all__ = ["check_stored_identity"]

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def check_stored_identity(
    manifest: StoredManifest, members: set[str], path: Path
) -> Iterator[Finding]:
    """Yield what TorchServe refuses or cannot serve under; `members` are the names of files."""
    yield from _check_name(manifest, path)
    yield from _check_version(manifest, path)
    yield from _check_runtime(manifest, path)
    if manifest.text("envelope"):
        message = "the manifest names an envelope, and TorchServe goes by its own setting alone"
        fix = "set service_envelope in config.properties"
        yield make_warning("manifest-envelope", message, path, fix=fix)
    for key, name in manifest.files.items():
        if settle_name(name) not in members or ".." in name.split("/"):
            message = f"the manifest names {name!r} as its {key}, which is not in the archive"
            yield make_error("missing-file", message, path)
    if ".." in path.name:
        message = f"TorchServe loads no file with '..' in its name ({path.name!r})"
        yield make_error("archive-name", message, path, fix="rename it")


def _check_name(manifest: StoredManifest, path: Path) -> Iterator[Finding]:
    name = manifest.text("modelName")
    if not name:
        yield make_error("no-model-name", "the manifest has no model.modelName", path)
    elif not is_addressable(name):
        message = f"model name {name!r} cannot be part of a URL, so nothing can be asked of it"
        yield make_error("model-name", message, path)
    elif not _PLAIN_NAME.fullmatch(name):
        message = f"model name {name!r} needs escapes in every URL"
        yield make_warning("model-name", message, path)


def _check_version(manifest: StoredManifest, path: Path) -> Iterator[Finding]:
    version = manifest.text("modelVersion")
    if not version:
        if manifest.model.get("modelVersion") == "":
            message = "model.modelVersion in the manifest is empty; leave it out for 1.0"
            yield make_error("version", message, path)
    elif not is_addressable(version):
        message = f"version {version!r} cannot be part of a URL, so nothing can be asked of it"
        yield make_error("version", message, path)
    elif version == "all" or any(c.isspace() for c in version):
        message = f"version {version!r} means something else in the management API, or is escaped"
        yield make_warning("version", message, path)


def _check_runtime(manifest: StoredManifest, path: Path) -> Iterator[Finding]:
    runtime = manifest.top.get("runtime", "python")
    if runtime not in RUNTIMES:
        message = f"runtime {runtime!r} is not one of {', '.join(RUNTIMES)}"
        yield make_error("runtime", message, path)
    elif runtime == "python3":
        message = "runtime 'python3' runs whatever python3 the server finds on its PATH"
        yield make_warning("runtime-python3", message, path)
    elif runtime == "LSP":
        message = "runtime 'LSP' needs TorchServe's C++ backend, which its wheel does not have"
        yield make_warning("runtime-lsp", message, path)
