"""The manifest in an archive that somebody made, read as both sides of TorchServe read it.

TorchServe 0.12: Java reads it with Gson and answers 400 or 500 to what does not fit; the worker
reads it again with Python's json, which is stricter, and fails then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from makemar.archiver.fault import make_error, make_warning
from makemar.errors import Finding

__all__ = ["StoredManifest", "read_manifest"]

# What Java reads as text: with an object or a list there it answers 400.
_TOP_TEXTS = ("createdOn", "description", "archiverVersion")
_MODEL_TEXTS = (
    "modelName",
    "version",
    "description",
    "modelVersion",
    "handler",
    "envelope",
    "requirementsFile",
    "configFile",
)
_FILES = ("serializedFile", "modelFile", "requirementsFile", "configFile")


@dataclass(frozen=True, kw_only=True)
class StoredManifest:
    """The top level and the model of a manifest, numbers as their literal text."""

    top: Mapping[str, object] = field(default_factory=dict)
    model: Mapping[str, object] = field(default_factory=dict)

    def text(self, key: str) -> str:
        """Return a text of the model, empty if there is none."""
        value = self.model.get(key)
        if isinstance(value, bool):
            return str(value).lower()  # as Gson does
        return value if isinstance(value, str) else ""

    @property
    def files(self) -> dict[str, str]:
        """Return the keys that name members, and the names."""
        return {key: name for key in _FILES if (name := self.text(key))}


def read_manifest(text: bytes, path: Path) -> tuple[StoredManifest | None, tuple[Finding, ...]]:
    """Read a manifest as far as it can be, and find what keeps TorchServe from doing so."""
    try:
        top = _parse(text, path)
    except _UnreadableError as error:
        return None, (error.finding,)
    pairs, findings = [*_duplicates(top)], []
    if pairs:
        listed = ", ".join(sorted(set(pairs)))
        message = f"the manifest has {listed} more than once; the last counts"
        findings.append(make_warning("manifest-duplicate-key", message, path))
    model = top.get("model", {})
    if not isinstance(model, dict):
        message = f"'model' in the manifest is {_describe(model)}, not an object"
        return None, (*findings, make_error("manifest-model", message, path))
    manifest = StoredManifest(top=top, model=model)
    return manifest, (*findings, *_check_types(manifest, path))


class _UnreadableError(Exception):
    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding


class _Object(dict[str, object]):
    """A JSON object that remembers which keys came twice."""

    twice: tuple[str, ...] = ()


def _make_object(pairs: list[tuple[str, object]]) -> _Object:
    table = _Object(pairs)
    keys = [key for key, _ in pairs]
    table.twice = (
        tuple(key for key in table if keys.count(key) > 1) if len(keys) > len(table) else ()
    )
    return table


def _parse(text: bytes, path: Path) -> _Object:
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable("manifest-encoding", "is not UTF-8", path) from error
    if decoded.startswith("\ufeff"):
        raise _unreadable(
            "manifest-bom", "starts with a byte order mark; the worker cannot read it", path
        )
    if not decoded.strip():
        raise _unreadable("manifest-empty", "is empty", path)
    try:
        top = json.loads(
            decoded,
            parse_int=str,
            parse_float=str,
            parse_constant=str,
            object_pairs_hook=_make_object,
        )
    except (ValueError, RecursionError) as error:
        raise _unreadable("manifest-json", f"is not JSON: {error}", path) from error
    if top is None:
        raise _unreadable("manifest-null", "is null", path)
    if not isinstance(top, _Object):
        raise _unreadable("manifest-json", f"is {_describe(top)}, not an object", path)
    return top


def _unreadable(code: str, what: str, path: Path) -> _UnreadableError:
    return _UnreadableError(make_error(code, f"the manifest {what}", path))


def _duplicates(value: object) -> Iterator[str]:
    if isinstance(value, _Object):
        yield from value.twice
        for item in value.values():
            yield from _duplicates(item)
    elif isinstance(value, list):
        for item in value:
            yield from _duplicates(item)


def _check_types(manifest: StoredManifest, path: Path) -> Iterator[Finding]:
    for table, keys in ((manifest.top, _TOP_TEXTS), (manifest.model, _MODEL_TEXTS)):
        for key in keys:
            if isinstance(value := table.get(key), (dict, list)):
                message = f"{key} in the manifest is {_describe(value)}, not a text"
                yield make_error("manifest-type", message, path)


def _describe(value: object) -> str:
    kinds = {
        "NoneType": "null",
        "_Object": "an object",
        "list": "a list",
        "str": "a text or number",
    }
    return kinds.get(type(value).__name__, f"a {type(value).__name__}")
