"""The `models` JSON of `config.properties`: settings per model name and exact version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from makemar.configs.spelling import near_match
from makemar.errors import ConfigError

__all__ = ["ModelDefaults", "format_models", "parse_models"]

_KEYS = {
    "min_workers": "minWorkers",
    "max_workers": "maxWorkers",
    "batch_size": "batchSize",
    "max_batch_delay": "maxBatchDelay",
    "response_timeout": "responseTimeout",
    "startup_timeout": "startupTimeout",
    "runtime_type": "runtimeType",
}
_FIELDS = {key: name for name, key in _KEYS.items()}
# These mean something inside a snapshot only; TorchServe's own documentation shows them here.
_SNAPSHOT_KEYS = frozenset({"defaultVersion", "marName", "parallelLevel"})
_RUNTIMES = ("python", "python3", "LSP")


@dataclass(frozen=True, kw_only=True)
class ModelDefaults:
    """What the server uses for one model version where its archive and its caller say nothing.

    `max_batch_delay` is in milliseconds, both timeouts in seconds; None leaves a setting to the
    server. TorchServe 0.12: values of 0 and below count as unset, so they raise ConfigError;
    workers from here apply to models loaded at start-up only, and any timeout from here is ignored
    when the archive brings a model-config.yaml.
    """

    min_workers: int | None = None
    max_workers: int | None = None
    batch_size: int | None = None
    max_batch_delay: int | None = None
    response_timeout: int | None = None
    startup_timeout: int | None = None
    runtime_type: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and field.name != "runtime_type":
                _check_count(_KEYS[field.name], value)
        if self.runtime_type is not None and self.runtime_type not in _RUNTIMES:
            raise ConfigError(
                f"runtimeType must be one of {', '.join(_RUNTIMES)}, not {self.runtime_type!r}",
                key="runtimeType",
            )
        low, high = self.min_workers, self.max_workers
        if low is not None and high is not None and low > high:
            raise ConfigError(f"minWorkers {low} is more than maxWorkers {high}", key="minWorkers")


def parse_models(text: str) -> dict[str, dict[str, ModelDefaults]]:
    """Read `{name: {version: {setting: value}}}`; raise ConfigError for anything else."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ConfigError(
            f"models is not JSON ({error}); end each line but the last with a backslash",
            key="models",
        ) from error
    models: dict[str, dict[str, ModelDefaults]] = {}
    for name, versions in _object(data, "models").items():
        models[name] = {
            version: _read_defaults(settings, f"models.{name}.{version}")
            for version, settings in _object(versions, f"models.{name}").items()
        }
    return models


def format_models(models: Mapping[str, Mapping[str, ModelDefaults]]) -> str:
    """Write the `models` JSON on one line, settings that are None left out."""
    return json.dumps(
        {
            name: {version: _write_defaults(value) for version, value in versions.items()}
            for name, versions in models.items()
        }
    )


def _object(data: object, place: str) -> dict[str, object]:
    if not isinstance(data, dict):
        raise ConfigError(
            f"{place} must be an object; the levels are name, version, settings", key=place
        )
    return data


def _read_defaults(data: object, place: str) -> ModelDefaults:
    values: dict[str, object] = {}
    for key, value in _object(data, place).items():
        if key in _SNAPSHOT_KEYS:
            continue
        if key not in _FIELDS:
            hint = near_match(key, _FIELDS)
            fix = f"did you mean {hint}?" if hint else f"known are {', '.join(_FIELDS)}"
            raise ConfigError(f"{place}.{key} is not a setting; {fix}", key=f"{place}.{key}")
        # The server takes numbers in quotes as numbers.
        number = isinstance(value, str) and value.isascii() and value.isdigit()
        values[_FIELDS[key]] = int(str(value)) if number else value
    try:
        return ModelDefaults(**values)  # type: ignore[arg-type] # __post_init__ looks at the types
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}", key=f"{place}.{error.key}") from error


def _write_defaults(defaults: ModelDefaults) -> dict[str, int | str]:
    pairs = ((key, getattr(defaults, name)) for name, key in _KEYS.items())
    return {key: value for key, value in pairs if value is not None}


def _check_count(key: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{key} must be a whole number, not {value!r}", key=key)
    if not 1 <= value < 2**31:
        raise ConfigError(
            f"{key} must be at least 1, not {value}: the server takes 0 and below as unset", key=key
        )
