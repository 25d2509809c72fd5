"""The `model-config.yaml` inside an archive as one typed value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from makemar.configs.model_document import FatalConfigError, ModelDocument
from makemar.configs.settings import find_problems, setting, settings_of
from makemar.configs.spelling import near_match, same_letters
from makemar.configs.values import INDICES, SECTION, TEXT, choice, flag, table, whole
from makemar.errors import ConfigError, Finding, Severity

__all__ = ["ModelConfig", "check_model_config", "format_model_config", "parse_model_config"]

_DELAY = whole(1, why="0 means unset, which gives 100 ms; 1 is the smallest delay")
_TORCHRUN = table(
    {
        "nnodes": whole(1),
        "nproc-per-node": whole(1),
        "rdzv-backend": TEXT,
        "rdzv-endpoint": TEXT,
        "rdzv-conf": TEXT,
        "monitor-interval": whole(),
        "node-rank": whole(),
        "OMP_NUMBER_THREADS": whole(1),
    }
)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What an archive asks of the server, and what its handler reads for itself.

    Fields are the keys of TorchServe 0.12 in Python's spelling; None leaves a setting out.
    `max_batch_delay`, `client_timeout_in_mills` and the `_msec` fields are milliseconds,
    `response_timeout`, `startup_timeout` and `max_retry_timeout_in_sec` seconds. `handler` is the
    section of that name, `extra` every other section, both free for the handler
    (`context.model_yaml_config`). What the server would ignore raises ConfigError.

    TorchServe 0.12: an archive with any such file answers to the timeouts in it, or 120 s, and to
    no others.
    """

    min_workers: int | None = setting(whole(1), key="minWorkers")
    max_workers: int | None = setting(whole(1), key="maxWorkers")
    batch_size: int | None = setting(whole(1), key="batchSize")
    max_batch_delay: int | None = setting(_DELAY, key="maxBatchDelay")
    response_timeout: int | None = setting(whole(1), key="responseTimeout")
    startup_timeout: int | None = setting(whole(1), key="startupTimeout")
    device_type: str | None = setting(choice("cpu", "gpu", any_case=True), key="deviceType")
    device_ids: tuple[int, ...] | None = setting(INDICES, key="deviceIds")
    parallel_type: str | None = setting(
        choice("pp", "tp", "pptp", "custom", any_case=True), key="parallelType"
    )
    parallel_level: int | None = setting(whole(1), key="parallelLevel")
    torchrun: Mapping[str, object] | None = setting(_TORCHRUN)
    max_retry_timeout_in_sec: int | None = setting(whole(1), key="maxRetryTimeoutInSec")
    client_timeout_in_mills: int | None = setting(whole(), key="clientTimeoutInMills")
    job_queue_size: int | None = setting(whole(1), key="jobQueueSize")
    use_job_ticket: bool | None = setting(flag(), key="useJobTicket")
    continuous_batching: bool | None = setting(flag(), key="continuousBatching")
    sequence_batching: bool | None = setting(flag(), key="sequenceBatching")
    async_communication: bool | None = setting(flag(), key="asyncCommunication")
    use_venv: bool | None = setting(flag(), key="useVenv")
    sequence_max_idle_msec: int | None = setting(whole(), key="sequenceMaxIdleMSec")
    sequence_timeout_msec: int | None = setting(whole(), key="sequenceTimeoutMSec")
    max_sequence_job_queue_size: int | None = setting(whole(1), key="maxSequenceJobQueueSize")
    max_num_sequence: int | None = setting(whole(1), key="maxNumSequence")
    handler: Mapping[str, object] | None = setting(SECTION)
    extra: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for error in _find_problems(vars(self)):
            raise error


_SETTINGS = settings_of(ModelConfig)
# Every key but those of the handler's own section, which the server passes on as it is.
_SERVER_KEYS = tuple(key for key, each in _SETTINGS.items() if each.kind is not SECTION)


def parse_model_config(text: str | bytes, *, path: Path | None = None) -> ModelConfig:
    """Read the text of a `model-config.yaml` strictly; `path` is only named in errors.

    Raises ConfigError, with path, line and key, for everything that TorchServe 0.12 drops in
    silence: a wrong type, a misspelt key, a delay of 0, one of `minWorkers` and `maxWorkers`
    without the other, a repeated key. What breaks the server, such as an empty file, is a
    FatalConfigError.
    """
    try:
        document = ModelDocument.parse(text)
    except FatalConfigError as error:
        raise _placed(error, path, error.line) from error
    for problem in _check_document(document):
        raise _placed(problem, path, _line(problem, document))
    return ModelConfig(**_read_values(document))  # type: ignore[arg-type] # just looked at


def check_model_config(text: str | bytes, *, path: Path | None = None) -> tuple[Finding, ...]:
    """Return all that `parse_model_config` would raise for, at once.

    A finding is an error if the server, its worker or every prediction would fail over it, else,
    for what the server ignores, a warning (`config-ignored`).
    """
    try:
        document = ModelDocument.parse(text)
    except FatalConfigError as error:
        return (_find(error, path, error.line),)
    return tuple(_find(error, path, _line(error, document)) for error in _check_document(document))


def format_model_config(config: ModelConfig) -> str:
    """Write a `model-config.yaml`, settings that are None left out.

    Raises ConfigError when nothing is set: the server cannot read an empty file, so the archive
    is to carry none.
    """
    import yaml

    data = {
        key: each.kind.dump(value)
        for key, each in _SETTINGS.items()
        if (value := getattr(config, each.name)) is not None
    }
    data.update(config.extra)
    if not data:
        raise ConfigError("nothing is set: an archive without settings needs no config file")
    return yaml.safe_dump(data, sort_keys=False)


def _read_values(document: ModelDocument) -> dict[str, object]:
    """Return the settings by their fields' names, the free sections as `extra`."""
    values: dict[str, object] = {"extra": {}}
    extra = {key: value for key, value in document.data.items() if key not in _SETTINGS}
    for key, each in _SETTINGS.items():
        if key in document.data:
            values[each.name] = each.kind.load(document.data[key])
    return values | {"extra": extra}


def _check_document(document: ModelDocument) -> Iterator[ConfigError]:
    for key, lines in document.lines.items():
        if len(lines) > 1:
            yield ConfigError(f"{key} is there twice; the server takes the last", key=key)
    for key, value in document.data.items():
        if value is None and key in _SETTINGS:
            yield ConfigError(f"{key} has no value; give it one or remove the line", key=key)
    yield from _find_problems(_read_values(document))


def _line(error: ConfigError, document: ModelDocument) -> int | None:
    return error.line or document.line_of(error.key)


def _placed(error: ConfigError, path: Path | None, line: int | None) -> ConfigError:
    """Say the same with the place in front."""
    places = [str(path)] * (path is not None) + [f"line {line}"] * (line is not None)
    message = ": ".join([", ".join(places), str(error)] if places else [str(error)])
    if isinstance(error, FatalConfigError):
        placed: ConfigError = FatalConfigError(message, code=error.code, line=line, key=error.key)
        placed.path = path
        return placed
    return ConfigError(message, path=path, line=line, key=error.key)


def _find(error: ConfigError, path: Path | None, line: int | None) -> Finding:
    fatal = isinstance(error, FatalConfigError)
    return Finding(
        code=error.code if isinstance(error, FatalConfigError) else "config-ignored",
        severity=Severity.ERROR if fatal else Severity.WARNING,
        message=str(error),
        path=path,
        line=line,
    )


def _find_problems(values: Mapping[str, object]) -> Iterator[ConfigError]:
    """Yield what is wrong with settings, by their fields' names, and with the free sections."""
    wrong = {error.key: error for error in find_problems(_SETTINGS, values)}
    yield from wrong.values()
    extra = values["extra"]
    if not isinstance(extra, Mapping):
        yield ConfigError("extra must be a mapping of sections, by their names")
        return
    for key in extra:
        yield from _check_extra(key)
    # The server goes on without what is wrong in itself.
    good = {each.name: values.get(each.name) for k, each in _SETTINGS.items() if k not in wrong}
    yield from _check_workers(good.get("min_workers"), good.get("max_workers"))
    yield from _check_modes(good)


def _check_extra(key: object) -> Iterator[ConfigError]:
    """Find a free section whose name is a misspelt setting: the server would ignore it."""
    if not isinstance(key, str):
        yield ConfigError(f"the section name {key!r} is not text")
    elif key in _SETTINGS:
        yield ConfigError(f"{key} is a setting, not a free section", key=key)
    # A close match is a typo only above this cutoff: `device` is a fair name for a section.
    elif (hint := near_match(key, _SERVER_KEYS, cutoff=0.88)) is not None:
        fix = f"it is spelt {hint}" if same_letters(key, hint) else f"did you mean {hint}?"
        yield ConfigError(f"the server ignores {key}; {fix}", key=key)


def _check_workers(low: object, high: object) -> Iterator[ConfigError]:
    if (low is None) != (high is None):
        there, absent = (
            ("minWorkers", "maxWorkers") if high is None else ("maxWorkers", "minWorkers")
        )
        yield ConfigError(f"{there} is ignored without {absent}; set both", key=there)
    elif isinstance(low, int) and isinstance(high, int) and low > high:
        yield ConfigError(
            f"minWorkers {low} is more than maxWorkers {high}: both are ignored", key="minWorkers"
        )


def _check_modes(values: Mapping[str, object]) -> Iterator[ConfigError]:
    """Find modes that are right alone and break the model together with the rest."""
    kind = values.get("parallel_type")
    if isinstance(kind, str) and kind.lower() != "custom" and values.get("torchrun") is None:
        yield _clash("parallelType", "parallelType needs a torchrun section; write one")
    if values.get("sequence_batching") and not values.get("sequence_max_idle_msec"):
        yield _clash(
            "sequenceBatching",
            "sequenceBatching without sequenceMaxIdleMSec fails every prediction; set it",
        )
    size = values.get("batch_size")
    if values.get("async_communication") and isinstance(size, int) and size > 1:
        yield _clash(
            "asyncCommunication",
            "asyncCommunication with a batchSize above 1 hangs clients; use batchSize 1",
        )


def _clash(key: str, message: str) -> FatalConfigError:
    return FatalConfigError(message, code="config-clash", key=key)
