"""The tables and keys of a `mar.toml`, and hints for those that are nearly right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["FLAGS", "KEYS", "REQUIRED", "SILENCE", "TABLES", "hint_key", "hint_table"]

# Table and key -> field of ArchiveSpec; the order is that of format_spec.
KEYS: dict[str, dict[str, str]] = {
    "model": {
        "name": "model_name",
        "version": "version",
        "handler": "handler",
        "model_file": "model_file",
        "serialized_file": "serialized_file",
        "runtime": "runtime",
        "description": "description",
    },
    "files": {
        "extra": "extra_files",
        "include": "include",
        "requirements": "requirements_file",
        "config": "config_file",
    },
    "archive": {"vendor": "vendor", "strict": "strict"},
    "target": {"python": "target_python", "envelope": "target_envelope"},
}
# The table whose keys are the codes of findings.
SILENCE = "silence"
TABLES = (*KEYS, SILENCE)
FLAGS = ("strict", "vendor")
REQUIRED = ("name", "version", "handler")


def hint_table(table: str) -> str:
    """Point to the table that was meant."""
    close = difflib.get_close_matches(table, TABLES, n=1)
    return f"did you mean [{close[0]}]?" if close else f"there are {_brackets(TABLES)}"


def hint_key(key: str, table: str = "") -> str:
    """Point to the key that was meant, in this table or in another."""
    homes = {known: home for home, keys in KEYS.items() for known in keys}
    # People who come from the flags or the Python fields write those names.
    homes_of_fields = {field: known for keys in KEYS.values() for known, field in keys.items()}
    known = homes_of_fields.get(key, key)
    if known not in homes:
        close = difflib.get_close_matches(key, KEYS.get(table, homes), n=1)
        close = close or difflib.get_close_matches(key, homes, n=1)
        if not close:
            return f"[{table}] has {', '.join(KEYS[table])}" if table else "remove it"
        known = close[0]
    where = "" if homes[known] == table else f" in [{homes[known]}]"
    return f"did you mean {known!r}{where}?"


def _brackets(tables: Iterable[str]) -> str:
    return ", ".join(f"[{table}]" for table in tables)
