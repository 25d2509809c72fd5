"""The `model-config.yaml` inside an archive as one typed value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from makemar.configs.spelling import near_match, same_letters
from makemar.errors import ConfigError

if TYPE_CHECKING:
    import yaml

__all__ = ["ModelConfig", "format_model_config", "parse_model_config"]

# Field, key in the file, kind, smallest number allowed.
_COUNT, _FLAG, _WORD = "whole number", "true or false", "word"
_SETTINGS: tuple[tuple[str, str, str, int], ...] = (
    ("min_workers", "minWorkers", _COUNT, 1),
    ("max_workers", "maxWorkers", _COUNT, 1),
    ("batch_size", "batchSize", _COUNT, 1),
    ("max_batch_delay", "maxBatchDelay", _COUNT, 1),
    ("response_timeout", "responseTimeout", _COUNT, 1),
    ("startup_timeout", "startupTimeout", _COUNT, 1),
    ("device_type", "deviceType", _WORD, 0),
    ("device_ids", "deviceIds", "list of whole numbers", 0),
    ("parallel_type", "parallelType", _WORD, 0),
    ("parallel_level", "parallelLevel", _COUNT, 1),
    ("torchrun", "torchrun", "mapping", 0),
    ("max_retry_timeout_in_sec", "maxRetryTimeoutInSec", _COUNT, 1),
    ("client_timeout_in_mills", "clientTimeoutInMills", _COUNT, 0),
    ("job_queue_size", "jobQueueSize", _COUNT, 1),
    ("use_job_ticket", "useJobTicket", _FLAG, 0),
    ("continuous_batching", "continuousBatching", _FLAG, 0),
    ("sequence_batching", "sequenceBatching", _FLAG, 0),
    ("async_communication", "asyncCommunication", _FLAG, 0),
    ("use_venv", "useVenv", _FLAG, 0),
    ("sequence_max_idle_msec", "sequenceMaxIdleMSec", _COUNT, 0),
    ("sequence_timeout_msec", "sequenceTimeoutMSec", _COUNT, 0),
    ("max_sequence_job_queue_size", "maxSequenceJobQueueSize", _COUNT, 1),
    ("max_num_sequence", "maxNumSequence", _COUNT, 1),
)
_FIELDS = {key: name for name, key, _, _ in _SETTINGS}
_WORDS = {"deviceType": ("cpu", "gpu"), "parallelType": ("pp", "tp", "pptp", "custom")}
_TORCHRUN = {
    "nnodes": int,
    "nproc-per-node": int,
    "rdzv-backend": str,
    "rdzv-endpoint": str,
    "rdzv-conf": str,
    "monitor-interval": int,
    "node-rank": int,
    "OMP_NUMBER_THREADS": int,
}


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

    min_workers: int | None = None
    max_workers: int | None = None
    batch_size: int | None = None
    max_batch_delay: int | None = None
    response_timeout: int | None = None
    startup_timeout: int | None = None
    device_type: str | None = None
    device_ids: tuple[int, ...] | None = None
    parallel_type: str | None = None
    parallel_level: int | None = None
    torchrun: Mapping[str, object] | None = None
    max_retry_timeout_in_sec: int | None = None
    client_timeout_in_mills: int | None = None
    job_queue_size: int | None = None
    use_job_ticket: bool | None = None
    continuous_batching: bool | None = None
    sequence_batching: bool | None = None
    async_communication: bool | None = None
    use_venv: bool | None = None
    sequence_max_idle_msec: int | None = None
    sequence_timeout_msec: int | None = None
    max_sequence_job_queue_size: int | None = None
    max_num_sequence: int | None = None
    handler: Mapping[str, object] | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, key, kind, least in _SETTINGS:
            value = getattr(self, name)
            problem = "" if value is None else _problem(key, value, kind, least)
            if problem:
                raise ConfigError(f"{key} {problem}", key=key)
        if self.handler is not None and not isinstance(self.handler, Mapping):
            raise ConfigError("handler must be a mapping of settings", key="handler")
        for key in self.extra:
            _check_extra(key)
        _check_together(self)


def parse_model_config(text: str, *, path: Path | None = None) -> ModelConfig:
    """Read the text of a `model-config.yaml` strictly; `path` is only named in errors.

    Raises ConfigError, with path, line and key, for YAML that cannot be read and for everything
    that TorchServe 0.12 drops in silence: a wrong type, a misspelt key, a delay of 0, one of
    `minWorkers` and `maxWorkers` without the other, a repeated key. An empty file stops the whole
    server at start, so it is an error too.
    """
    lines: dict[str, int] = {}
    try:
        data = _load(text, lines)
        known = {_FIELDS[key]: value for key, value in data.items() if key in _FIELDS}
        if isinstance(known.get("device_ids"), list):
            known["device_ids"] = tuple(known["device_ids"])  # type: ignore[arg-type]
        rest = {key: value for key, value in data.items() if key not in _FIELDS}
        for key, value in data.items():
            if value is None and (key in _FIELDS or key == "handler"):
                raise ConfigError(f"{key} has no value; give it one or remove the line", key=key)
        handler = rest.pop("handler", None)
        # __post_init__ looks at the types.
        return ModelConfig(**known, handler=handler, extra=rest)  # type: ignore[arg-type]
    except ConfigError as error:
        line = error.line or lines.get(error.key or "")
        places = [str(path)] * (path is not None) + [f"line {line}"] * (line is not None)
        where = ", ".join(places) + ": " if places else ""
        raise ConfigError(f"{where}{error}", path=path, line=line, key=error.key) from error


def format_model_config(config: ModelConfig) -> str:
    """Write a `model-config.yaml`, settings that are None left out.

    Raises ConfigError when nothing is set: the server cannot read an empty file, so the archive
    is to carry none.
    """
    import yaml

    data: dict[str, object] = {}
    for name, key, _, _ in _SETTINGS:
        value = getattr(config, name)
        if value is not None:
            data[key] = list(value) if isinstance(value, tuple) else value
    if config.torchrun is not None:
        data["torchrun"] = dict(config.torchrun)
    if config.handler is not None:
        data["handler"] = dict(config.handler)
    data.update(config.extra)
    if not data:
        raise ConfigError("nothing is set: an archive without settings needs no config file")
    return yaml.safe_dump(data, sort_keys=False)


def _load(text: str, lines: dict[str, int]) -> dict[str, object]:
    """Read the YAML's top level; note the line of every key in `lines`."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        what = error.problem or error.context
        raise ConfigError(f"not YAML that the server can read: {what}", line=line) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"not YAML that the server can read: {reason}") from error
    if data is None:
        raise ConfigError(
            "the file is empty, which stops the server; set something or leave it out"
        )
    if not isinstance(root, yaml.MappingNode) or not isinstance(data, dict):
        raise ConfigError("the top level must be a mapping of `key: value` lines", line=1)
    _note_lines(root, lines)
    for key in data:
        if not isinstance(key, str):
            raise ConfigError(f"the key {key!r} is not text; put it in quotes")
    return data


def _note_lines(root: yaml.MappingNode, lines: dict[str, int]) -> None:
    for key_node, _ in root.value:
        line = key_node.start_mark.line + 1
        if key_node.value in lines:
            raise ConfigError(
                f"{key_node.value} is there twice; the server takes the last", line=line
            )
        lines[key_node.value] = line


def _problem(key: str, value: object, kind: str, least: int) -> str:
    """Say what is wrong with one setting's value, or nothing."""
    if key == "torchrun":
        return _torchrun_problem(value)
    if key == "deviceIds":
        good = isinstance(value, tuple) and all(_is_whole(item) and item >= 0 for item in value)
        return "" if good else f"must be a list of whole numbers, not {value!r}"
    if kind == _FLAG:
        return "" if isinstance(value, bool) else f"must be true or false, not {value!r}"
    if kind == _WORD:
        good = isinstance(value, str) and value.lower() in _WORDS[key]
        return "" if good else f"must be one of {', '.join(_WORDS[key])}, not {value!r}"
    if not _is_whole(value):
        return f"must be a whole number without quotes, not {value!r}"
    assert isinstance(value, int)  # noqa: S101 - just looked
    if key == "maxBatchDelay" and value == 0:
        return "0 means unset, which gives 100 ms; 1 is the smallest delay"
    return "" if least <= value < 2**31 else f"must be between {least} and {2**31 - 1}, not {value}"


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _torchrun_problem(value: object) -> str:
    if not isinstance(value, Mapping):
        return "must be a mapping of torchrun's settings"
    for key, setting in value.items():
        if key not in _TORCHRUN:
            hint = near_match(str(key), _TORCHRUN) or ", ".join(_TORCHRUN)
            return f"has no setting {key!r}; did you mean {hint}?"
        if type(setting) is not _TORCHRUN[key]:
            wanted = "a whole number" if _TORCHRUN[key] is int else "text"
            return f"setting {key} must be {wanted}, not {setting!r}"
    return ""


def _check_extra(key: object) -> None:
    """Refuse a free section whose name is a misspelt setting: the server would ignore it."""
    if not isinstance(key, str):
        raise ConfigError(f"the section name {key!r} is not text")
    if key in _FIELDS or key == "handler":
        raise ConfigError(f"{key} is a setting, not a free section", key=key)
    # A close match is a typo only above this cutoff: `device` is a fair name for a section.
    hint = near_match(key, _FIELDS, cutoff=0.88)
    if hint is not None:
        same = same_letters(key, hint)
        fix = f"it is spelt {hint}" if same else f"did you mean {hint}?"
        raise ConfigError(f"the server ignores {key}; {fix}", key=key)


def _check_together(config: ModelConfig) -> None:
    """Refuse what is right alone and wrong together."""
    low, high = config.min_workers, config.max_workers
    if (low is None) != (high is None):
        present, absent = (
            ("minWorkers", "maxWorkers") if high is None else ("maxWorkers", "minWorkers")
        )
        raise ConfigError(f"{present} is ignored without {absent}; set both", key=present)
    if low is not None and high is not None and low > high:
        raise ConfigError(
            f"minWorkers {low} is more than maxWorkers {high}: both are ignored", key="minWorkers"
        )
    if config.parallel_type not in (None, "custom") and config.torchrun is None:
        raise ConfigError("parallelType needs a torchrun section", key="parallelType")
    if config.sequence_batching and not config.sequence_max_idle_msec:
        raise ConfigError(
            "sequenceBatching without sequenceMaxIdleMSec fails every prediction; set it",
            key="sequenceBatching",
        )
    if config.async_communication and (config.batch_size or 1) > 1:
        raise ConfigError(
            "asyncCommunication with a batchSize above 1 hangs clients; use batchSize 1",
            key="asyncCommunication",
        )
