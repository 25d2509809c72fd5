"""`MAR-INF/MANIFEST.json`, as TorchServe reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from makemar.errors import ManifestError

__all__ = ["Manifest", "format_manifest", "format_time", "parse_manifest"]

# Attribute of Manifest and key under "model", in the order in which they are written.
_MODEL_KEYS = (
    ("model_name", "modelName"),
    ("model_version", "modelVersion"),
    ("description", "description"),
    ("handler", "handler"),
    ("serialized_file", "serializedFile"),
    ("model_file", "modelFile"),
    ("requirements_file", "requirementsFile"),
    ("config_file", "configFile"),
)
_TOP_KEYS = (
    ("created_on", "createdOn"),
    ("runtime", "runtime"),
    ("archiver_version", "archiverVersion"),
)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What an archive says about itself.

    File names are member names. `created_on` is `dd/mm/yyyy HH:MM:SS` without a zone, as
    torch-model-archiver writes it. An empty text or None is left out of the JSON.
    """

    model_name: str
    handler: str
    model_version: str = ""
    description: str = ""
    serialized_file: str | None = None
    model_file: str | None = None
    requirements_file: str | None = None
    config_file: str | None = None
    runtime: str = "python"
    created_on: str = ""
    archiver_version: str = ""

    @property
    def effective_version(self) -> str:
        """Return the version that TorchServe 0.12 registers: 1.0 if none is given."""
        return self.model_version or "1.0"


def format_time(time: datetime) -> str:
    """Write a time as `createdOn` has it: `dd/mm/yyyy HH:MM:SS`."""
    return time.strftime("%d/%m/%Y %H:%M:%S")


def format_manifest(manifest: Manifest) -> str:
    """Write a manifest as JSON with a final newline; equal manifests give equal bytes."""
    top: dict[str, object] = _present(manifest, _TOP_KEYS)
    top["model"] = _present(manifest, _MODEL_KEYS)
    return json.dumps(top, indent=2) + "\n"


def _present(manifest: Manifest, keys: tuple[tuple[str, str], ...]) -> dict[str, object]:
    values = ((key, getattr(manifest, attribute)) for attribute, key in keys)
    return {key: value for key, value in values if value not in (None, "")}


def parse_manifest(text: str | bytes) -> Manifest:
    """Read a manifest; keys that TorchServe does not know are passed over.

    Numbers keep their literal text (TorchServe 0.12: a bare `1.10` is version `1.10`). Raises
    ManifestError if the JSON is broken, is no object, has no `model` object, or `modelName` or
    `handler` is missing: TorchServe answers 400 or 500 to those.
    """
    try:
        top = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"the manifest is not JSON: {error}; pack the archive again") from error
    top = _object(top, "the manifest")
    model = _object(top.get("model"), "'model' in the manifest")
    values = {a: _text(top, key) for a, key in _TOP_KEYS}
    values |= {a: _text(model, key) for a, key in _MODEL_KEYS}
    for attribute, key in (("model_name", "modelName"), ("handler", "handler")):
        if not values[attribute]:
            raise ManifestError(f"the manifest has no model.{key}; pack the archive again")
    # Absent texts take the defaults of the class, except that absent files stay None.
    return Manifest(**{a: value for a, value in values.items() if value})


def _object(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        found = "missing" if value is None else f"a {type(value).__name__}, not an object"
        raise ManifestError(f"{what} is {found}; pack the archive again")
    return value


def _text(table: dict[str, object], key: str) -> str | None:
    value = table.get(key)
    if value is None or isinstance(value, str):
        return value
    raise ManifestError(
        f"{key} in the manifest is a {type(value).__name__}, not a text; pack the archive again"
    )
