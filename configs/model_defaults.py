"""The `models` JSON of `config.properties`: settings per model name and exact version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from makemar.configs.runtimes import RUNTIMES
from makemar.configs.settings import find_problems, setting, settings_of
from makemar.configs.spelling import near_match
from makemar.configs.values import Kind, choice, whole
from makemar.errors import ConfigError

__all__ = ["MODELS", "ModelDefaults"]

# These mean something inside a snapshot only; TorchServe's own documentation shows them here.
_SNAPSHOT_KEYS = frozenset({"defaultVersion", "marName", "parallelLevel"})
# The server takes numbers in quotes as numbers.
_COUNT = whole(1, why="the server takes 0 and below as unset", quoted=True)


@dataclass(frozen=True, kw_only=True)
class ModelDefaults:
    """What the server uses for one model version where its archive and its caller say nothing.

    `max_batch_delay` is in milliseconds, both timeouts in seconds; None leaves a setting to the
    server. TorchServe 0.12: values of 0 and below count as unset, so they raise ConfigError;
    workers from here apply to models loaded at start-up only, and any timeout from here is ignored
    when the archive brings a model-config.yaml.
    """

    min_workers: int | None = setting(_COUNT, key="minWorkers")
    max_workers: int | None = setting(_COUNT, key="maxWorkers")
    batch_size: int | None = setting(_COUNT, key="batchSize")
    max_batch_delay: int | None = setting(_COUNT, key="maxBatchDelay")
    response_timeout: int | None = setting(_COUNT, key="responseTimeout")
    startup_timeout: int | None = setting(_COUNT, key="startupTimeout")
    runtime_type: str | None = setting(choice(*RUNTIMES), key="runtimeType")

    def __post_init__(self) -> None:
        for error in find_problems(_SETTINGS, vars(self)):
            raise error
        low, high = self.min_workers, self.max_workers
        if low is not None and high is not None and low > high:
            raise ConfigError(f"minWorkers {low} is more than maxWorkers {high}", key="minWorkers")


_SETTINGS = settings_of(ModelDefaults)


def _parse_models(text: str) -> dict[str, dict[str, ModelDefaults]]:
    """Read `{name: {version: {setting: value}}}`; raise ConfigError for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
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


def _format_models(models: object) -> str:
    """Write the `models` JSON on one line, settings that are None left out."""
    return json.dumps(models, default=_dump)


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
        if key not in _SETTINGS:
            hint = near_match(key, _SETTINGS)
            fix = f"did you mean {hint}?" if hint else f"known are {', '.join(_SETTINGS)}"
            raise ConfigError(f"{place}.{key} is not a setting; {fix}", key=f"{place}.{key}")
        values[_SETTINGS[key].name] = _SETTINGS[key].kind.load(value)
    try:
        return ModelDefaults(**values)  # type: ignore[arg-type] # __post_init__ looks at the types
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}", key=f"{place}.{error.key}") from error


def _dump(value: object) -> object:
    """Turn what JSON does not know into what it does."""
    if isinstance(value, Mapping):
        return dict(value)
    pairs = ((key, each.kind.dump(getattr(value, each.name))) for key, each in _SETTINGS.items())
    return {key: plain for key, plain in pairs if plain is not None}


def _problem(models: object) -> str:
    if isinstance(models, Mapping) and all(
        isinstance(versions, Mapping)
        and all(isinstance(value, ModelDefaults) for value in versions.values())
        for versions in models.values()
    ):
        return ""
    return "must map names to versions to ModelDefaults"


MODELS = Kind(read=_parse_models, problem=_problem, write=_format_models)
