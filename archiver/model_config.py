"""The model's configuration file inside an archive: what in it breaks a server, what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from makemar.errors import ConfigError, Finding, Severity

__all__ = ["check_config_file", "parse_config"]

_MOST_VALUES = 100_000


def check_config_file(path: Path) -> tuple[Finding, ...]:
    """Return what is wrong with a `model-config.yaml`.

    TorchServe 0.12: an empty one kills the server at start and answers 500 to a registration; a
    list or a key that is no text as well; broken YAML is passed over until the worker fails. What
    the server would drop in silence is a warning. Raises OSError if the file cannot be read.
    """
    return _check_document(path) or _check_settings(path)


def _check_document(path: Path) -> tuple[Finding, ...]:
    import yaml

    try:
        document = yaml.safe_load(path.read_bytes())
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = None if mark is None else mark.line + 1
        return (_error("config-syntax", f"not valid YAML: {reason}", path, line),)
    if document is None:
        return (_error("config-empty", "no key in it, and an empty one kills the server", path),)
    if not isinstance(document, dict):
        kind = type(document).__name__
        return (_error("config-mapping", f"a {kind} where TorchServe wants keys", path),)
    return tuple(
        _error("config-key", f"key {key!r} is a {type(key).__name__}, not a text", path)
        for key in document
        if not isinstance(key, str)
    )


def _check_settings(path: Path) -> tuple[Finding, ...]:
    from makemar.configs import parse_model_config

    try:
        parse_model_config(path.read_text(encoding="utf-8"))
    except ConfigError as error:
        return (
            Finding(
                code="config-ignored",
                severity=Severity.WARNING,
                message=str(error).removeprefix(f"line {error.line}: "),
                path=path,
                line=error.line,
            ),
        )
    return ()


def _error(code: str, message: str, path: Path, line: int | None = None) -> Finding:
    return Finding(
        code=code,
        severity=Severity.ERROR,
        message=message,
        fix="write `key: value` lines, such as `minWorkers: 1`",
        path=path,
        line=line,
    )


def parse_config(text: bytes) -> dict[str, object] | None:
    """Return the keys of a `model-config.yaml`; None if it is broken, empty or no mapping.

    Only plain values come back: dates and the like as texts. What aliases blow up to more than
    100,000 values is None too.
    """
    import yaml

    try:
        document = yaml.safe_load(text)
        if not isinstance(document, dict) or not document:
            return None
        budget = count(_MOST_VALUES, -1)
        return {str(key): _plain(value, budget) for key, value in document.items()}
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _plain(value: object, budget: Iterator[int]) -> object:
    """Copy a value as JSON knows it; raises ValueError when the budget is spent."""
    if next(budget) < 0:
        raise ValueError("too many values")
    if isinstance(value, dict):
        return {str(key): _plain(item, budget) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item, budget) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
