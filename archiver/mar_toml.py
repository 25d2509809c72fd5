"""`mar.toml`, a specification in a file.

[model]
name = "mobilenet"                  # required
version = "1.0"                     # required, a text
handler = "handler.py"              # required; see below
model_file = "network.py"
serialized_file = "weights.pth"
runtime = "python"
description = "Animals and kitchenware"

[files]
extra = ["index_to_name.json"]      # to the root of the archive; of a directory, its contents
include = ["vision", "static=web/static", { source = "a=b.txt", destination = "b.txt" }]
requirements = "requirements.txt"
config = "model-config.yaml"

[archive]
vendor = true                       # take makemar's handlers along
strict = false                      # every warning is an error

[target]                            # the server that it is for
python = "3.9"                      # newer syntax is a warning; TorchServe's images have 3.9
envelope = ""                       # its service_envelope: body, json, kserve or kservev2

[silence]                           # warnings that are accepted: code = "why it is no harm"
hidden-file = "the settings of our editor"

`handler` is one of

- `handler.py`, `handler.py:function` or `handler.py:Class`;
- `package.module`, `package.module:function` or `package.module:Class`, found from the folder of
  the file. `package/module.py:Class` is the same class in the same package;
- a name of TorchServe: `image_classifier`, `text_classifier`, `base_handler`, ...;
- a family of makemar: `makemar.image_classifier`, `makemar.text_embedder`, ...; `makemar.` may be
  left out where TorchServe has no handler of that name.

An entry module is added where TorchServe could not find the class by itself. Of `extra`, a file or
glob goes to the root, of a directory its contents; `include` keeps names and trees, "PATH" or
"PATH=NAME", so data files are found where the code looks for them (a worker runs in the root of the
unpacked archive). Modules that the handler and the model file import go along by themselves.
Relative paths start from the folder of the file.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from makemar.archiver.mar_toml_keys import (
    FLAGS,
    KEYS,
    REQUIRED,
    SILENCE,
    hint_key,
    hint_table,
)
from makemar.archiver.silence import Silence, find_fault
from makemar.archiver.spec import ArchiveSpec, Include, parse_include
from makemar.errors import ArchiveError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["format_spec", "parse_spec", "read_spec"]

_HEADER = re.compile(r"""\s*\[\s*["']?([^"'\]]*?)["']?\s*\]\s*(?:#.*)?$""")
_PATHS = ("model_file", "serialized_file", "requirements", "config")


def read_spec(path: Path) -> ArchiveSpec:
    """Read a `mar.toml`; relative paths in it start from its folder.

    Raises ArchiveError, with file and line where they are known, if the file cannot be read, is no
    TOML, has a key that is unknown, missing or of the wrong type.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ArchiveError(f"{path}: cannot be read: {reason}", path=path) from error
    return parse_spec(text, path.parent, path=path)


def parse_spec(text: str, base: Path, *, path: Path | None = None) -> ArchiveSpec:
    """Read the text of a `mar.toml`; `path` is what errors name. Raises ArchiveError."""
    reader = _Reader(text, path or base / "mar.toml")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise reader.fail(f"not valid TOML: {error}") from error
    except (RecursionError, ValueError) as error:
        # Brackets a thousand deep, numbers of five thousand digits.
        raise reader.fail(f"TOML that cannot be read: {str(error)[:80]}; write less") from error
    silence = reader.read_silence(document.pop(SILENCE, {}))
    reader.check_keys(document)
    values = reader.read_values(document)
    if silence:
        values["silence"] = silence
    return ArchiveSpec(**values, base=base)


def format_spec(spec: ArchiveSpec) -> str:
    """Write a specification as the text of a `mar.toml`; what is at its default is left out."""
    default = ArchiveSpec(model_name="", version="", handler="")
    tables = []
    for table, keys in KEYS.items():
        lines = [
            f"{key} = {_format_value(value)}"
            for key, attribute in keys.items()
            if (value := getattr(spec, attribute)) != getattr(default, attribute) or key in REQUIRED
        ]
        if lines:
            tables.append("\n".join([f"[{table}]", *lines]) + "\n")
    if spec.silence:
        lines = [f"{_format_key(s.code)} = {_format_value(s.reason)}" for s in spec.silence]
        tables.append("\n".join([f"[{SILENCE}]", *lines]) + "\n")
    return "\n".join(tables)


def _format_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _format_value(key)


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, Include):
        return _format_include(value)
    # JSON's escapes are TOML's, but for the one control character that JSON lets through.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _format_include(include: Include) -> str:
    source, destination = str(include.source), include.destination
    if "=" not in source + (destination or ""):
        return _format_value(source if destination is None else f"{source}={destination}")
    pairs = {"source": source} | ({} if destination is None else {"destination": destination})
    return f"{{ {', '.join(f'{key} = {_format_value(v)}' for key, v in pairs.items())} }}"


class _Reader:
    """Checks and converts a parsed document; knows where its keys stand in the text."""

    def __init__(self, text: str, path: Path) -> None:
        self.lines = text.splitlines()
        self.path = path

    def fail(self, message: str, table: str = "", key: str = "") -> ArchiveError:
        """Make the error that names the file, and the line of the key if it is found."""
        line = self.find_line(table, key) if table else None
        place = str(self.path) if line is None else f"{self.path}:{line}"
        return ArchiveError(f"{place}: {message}", path=self.path)

    def find_line(self, table: str, key: str) -> int | None:
        """Return the line of a key in its table, or of the table's header if no key is asked."""
        wanted = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*=""")
        current = ""
        for number, line in enumerate(self.lines, start=1):
            if header := _HEADER.match(line):
                current = header[1]
                if not key and current == table:
                    return number
            elif key and current == table and wanted.match(line):
                return number
        return None

    def check_keys(self, document: Mapping[str, object]) -> None:
        """Raise for a table or a key that is unknown, and for one that is missing."""
        for table, content in document.items():
            if table not in KEYS and isinstance(content, dict):
                raise self.fail(f"unknown table [{table}]; {hint_table(table)}", table)
            if table not in KEYS:
                raise self.fail(f"unknown key {table!r} outside of any table; {hint_key(table)}")
            if not isinstance(content, dict):
                raise self.fail(f"{table!r} must be a table; write [{table}] above its keys")
            for key in content:
                if key not in KEYS[table]:
                    hint = hint_key(key, table)
                    raise self.fail(f"unknown key {key!r} in [{table}]; {hint}", table, key)
        model = document.get("model", {})
        for key in REQUIRED:
            if not isinstance(model, dict) or key not in model:
                raise self.fail(f"{key!r} is missing from [model]; add it", "model")

    def read_values(self, document: Mapping[str, dict[str, object]]) -> dict[str, Any]:
        """Return the values by the names of ArchiveSpec's fields."""
        return {
            KEYS[table][key]: self.convert(table, key, value)
            for table, content in document.items()
            for key, value in content.items()
        }

    def convert(self, table: str, key: str, value: object) -> object:
        if key in FLAGS:
            if isinstance(value, bool):
                return value
            raise self.fail(f"{key!r} must be true or false", table, key)
        if key in ("extra", "include"):
            if not isinstance(value, list):
                raise self.fail(f"{key!r} must be a list; write {key} = [...]", table, key)
            read = self.read_include if key == "include" else self.read_text
            return tuple(read(table, key, item) for item in value)
        text = self.read_text(table, key, value, empty=key not in _PATHS)
        return Path(text) if key in _PATHS else text

    def read_silence(self, table: object) -> tuple[Silence, ...]:
        """Return the codes that are silenced with their reasons; raise for a bad one."""
        if not isinstance(table, dict):
            raise self.fail(f"{SILENCE!r} must be a table; write [{SILENCE}] above its codes")
        silences = []
        for code, reason in table.items():
            text = self.read_text(SILENCE, code, reason, empty=True)
            silences.append(Silence(code=code, reason=text))
            if fault := find_fault(silences[-1]):
                raise self.fail(fault, SILENCE, code)
        return tuple(silences)

    def read_text(self, table: str, key: str, value: object, *, empty: bool = False) -> str:
        if not isinstance(value, str):
            hint = f'; write {key} = "{value}"' if _is_short(value) else ""
            raise self.fail(f"{key!r} must be a text{hint}", table, key)
        if not value and not empty:
            raise self.fail(f"{key!r} has an empty text; name a file or leave it out", table, key)
        return value

    def read_include(self, table: str, key: str, value: object) -> Include:
        if not isinstance(value, dict):
            try:
                return parse_include(self.read_text(table, key, value))
            except ArchiveError as error:
                raise error if error.path else self.fail(str(error), table, key) from error
        unknown = set(value) - {"source", "destination"}
        if unknown or "source" not in value:
            wanted = '{ source = "PATH", destination = "NAME" }'
            raise self.fail(f"an entry of {key!r} must look like {wanted}", table, key)
        source = self.read_text(table, "source", value["source"])
        destination = value.get("destination")
        if destination is not None:
            destination = self.read_text(table, "destination", destination)
        return Include(source=Path(source), destination=destination)


def _is_short(value: object) -> bool:
    """Tell a number that fits into a message; of a longer one not even the text can be made."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**20)
