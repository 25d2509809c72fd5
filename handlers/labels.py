"""Class names: index_to_name.json, in the forms that TorchServe's handlers read."""

from __future__ import annotations

import json
from pathlib import Path

from makemar.handlers.errors import LoadError

__all__ = ["load_labels"]


def load_labels(path: Path) -> dict[str, str] | None:
    """Return {class index: name}, or None when there is no such file.

    A value may be a name or a list that ends with it (`["n02123045", "tabby"]`); a list under
    `object_type_names` is numbered from 0. Raises `LoadError` for anything else.
    """
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LoadError(f"{path.name} is not JSON: {error}") from error
    if isinstance(content, dict) and isinstance(content.get("object_type_names"), list):
        content = dict(enumerate(content["object_type_names"]))
    if not isinstance(content, dict):
        raise LoadError(f"{path.name} must map class indices to names")
    return {str(key): _name(path, key, value) for key, value in content.items()}


def _name(path: Path, key: object, value: object) -> str:
    if isinstance(value, list) and value:
        value = value[-1]
    if not isinstance(value, str):
        raise LoadError(f"{path.name}: class {key} has no name but {value!r}")
    return value
