"""The server's `config.properties` as one typed value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from makemar.configs.model_defaults import MODELS, ModelDefaults
from makemar.configs.properties import PropertyLine, format_properties, property_lines
from makemar.configs.settings import find_problems, setting, settings_of
from makemar.configs.spelling import near_match
from makemar.configs.values import ADDRESS, HOST, LISTING, NUMBER, TEXT, choice, flag, whole
from makemar.errors import ConfigError

__all__ = ["ServerConfig", "format_server_config", "parse_server_config"]

_REFERENCE = re.compile(r"\$\$([^$]+[^$])\$\$")
# Keys that people look for here and that live elsewhere.
_ELSEWHERE = {
    "python": "the launcher always passes its own interpreter; start TorchServe with another one",
    "batch_size": "set batchSize in model-config.yaml or in the models JSON",
    "max_batch_delay": "set maxBatchDelay in model-config.yaml or in the models JSON",
    "min_workers": "set minWorkers in model-config.yaml or in the models JSON",
    "max_workers": "set maxWorkers in model-config.yaml or in the models JSON",
    "response_timeout": "the key here is default_response_timeout",
    "startup_timeout": "the key here is default_startup_timeout",
}


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Everything that TorchServe 0.12 reads from `config.properties`, under the file's own names.

    None leaves a setting to the server's default. Sizes are in bytes, timeouts in seconds except
    where the name says `_ms` or `_min`. A value that the server would misread, ignore or
    choke on later raises ConfigError with its key.
    """

    # Where it listens. Equal inference and management addresses merge both APIs on one port.
    inference_address: str | None = setting(ADDRESS)
    management_address: str | None = setting(ADDRESS)
    metrics_address: str | None = setting(ADDRESS)
    grpc_inference_address: str | None = setting(HOST)
    grpc_management_address: str | None = setting(HOST)
    grpc_inference_port: int | None = setting(whole(1, 65535))
    grpc_management_port: int | None = setting(whole(1, 65535))
    grpc_inference_max_connection_age_ms: int | None = setting(whole(1, 2**63 - 1))
    grpc_management_max_connection_age_ms: int | None = setting(whole(1, 2**63 - 1))
    grpc_inference_max_connection_age_grace_ms: int | None = setting(whole(0, 2**63 - 1))
    grpc_management_max_connection_age_grace_ms: int | None = setting(whole(0, 2**63 - 1))
    enable_grpc_ssl: bool | None = setting(flag())

    # Which models it serves.
    model_store: str | None = setting(TEXT)
    workflow_store: str | None = setting(TEXT)
    load_models: tuple[str, ...] | None = setting(LISTING)
    models: Mapping[str, Mapping[str, ModelDefaults]] = setting(MODELS, default_factory=dict)
    model_snapshot: str | None = setting(TEXT)
    default_service_handler: str | None = setting(TEXT)
    service_envelope: str | None = setting(TEXT)
    install_py_dep_per_model: bool | None = setting(flag())

    # Workers, queues and limits.
    default_workers_per_model: int | None = setting(whole())
    default_response_timeout: int | None = setting(whole(1))
    default_startup_timeout: int | None = setting(whole(1))
    unregister_model_timeout: int | None = setting(whole(1))
    job_queue_size: int | None = setting(whole(1))  # 0 turns every registration into a 403
    max_request_size: int | None = setting(whole(1))
    max_response_size: int | None = setting(whole(1))
    decode_input_request: bool | None = setting(
        flag(lower_case=True)
    )  # Python compares with "true"
    limit_max_image_pixels: bool | None = setting(flag())
    number_of_netty_threads: int | None = setting(whole())
    netty_client_threads: int | None = setting(whole())
    number_of_gpu: int | None = setting(whole())

    # Who may do what.
    enable_model_api: bool | None = setting(flag())
    disable_token_authorization: bool | None = setting(flag())
    token_expiration_min: float | None = setting(NUMBER)
    allowed_urls: tuple[str, ...] | None = setting(LISTING)
    use_env_allowed_urls: bool | None = setting(flag())
    blacklist_env_vars: str | None = setting(TEXT)
    enable_envvars_config: bool | None = setting(flag())
    keystore: str | None = setting(TEXT)
    keystore_pass: str | None = setting(TEXT, secret=True)
    keystore_type: str | None = setting(TEXT)
    private_key_file: str | None = setting(TEXT)
    certificate_file: str | None = setting(TEXT)
    cors_allowed_origin: str | None = setting(TEXT)
    cors_allowed_methods: str | None = setting(TEXT)
    cors_allowed_headers: str | None = setting(TEXT)

    # What it tells.
    enable_metrics_api: bool | None = setting(flag())
    metrics_mode: str | None = setting(choice("log", "prometheus", "legacy"))
    metrics_config: str | None = setting(TEXT)
    model_metrics_auto_detect: bool | None = setting(flag())
    disable_system_metrics: bool | None = setting(flag())
    metric_time_interval: int | None = setting(whole(1))
    system_metrics_cmd: str | None = setting(TEXT)
    async_logging: bool | None = setting(flag())

    # Protocols.
    ts_open_inference_protocol: bool | None = setting(flag())
    ts_header_key_sequence_id: str | None = setting(TEXT)
    ts_header_key_sequence_start: str | None = setting(TEXT)
    ts_header_key_sequence_end: str | None = setting(TEXT)

    # The processes.
    debug: bool | None = setting(flag())
    prefer_direct_buffer: bool | None = setting(flag())
    ipex_enable: bool | None = setting(flag())
    ipex_gpu_enable: bool | None = setting(flag())
    cpu_launcher_enable: bool | None = setting(flag())
    cpu_launcher_args: str | None = setting(TEXT)
    initial_worker_port: int | None = setting(whole(1, 65535))
    initial_distribution_port: int | None = setting(whole(1, 65535))
    model_server_home: str | None = setting(TEXT)
    cpp_log_config: str | None = setting(TEXT)
    use_native_io: bool | None = setting(flag())
    io_ratio: int | None = setting(whole(1, 100))
    vmargs: str | None = setting(TEXT)  # the launcher reads these two, Java never does
    plugins_path: str | None = setting(TEXT)

    def __post_init__(self) -> None:
        for error in find_problems(_SETTINGS, vars(self)):
            raise error


_SETTINGS = settings_of(ServerConfig)


def parse_server_config(
    text: str, *, path: Path | None = None, environ: Mapping[str, str] | None = None
) -> ServerConfig:
    """Read the text of a `config.properties` strictly.

    `path` is only named in errors. `$$NAME$$` is replaced from `environ`; without one such a
    reference stays as it is where text is allowed. Raises ConfigError, with path, line and key, for
    what the server would skip in silence (an unknown key) or fail on later (a wrong type).
    """
    found: dict[str, object] = {}
    for entry in property_lines(text, path=path):
        try:
            found[entry.key] = _read(entry, environ)
        except ConfigError as error:
            where = f"line {entry.line}" if path is None else f"{path}:{entry.line}"
            raise ConfigError(
                f"{where}: {error}", path=path, line=entry.line, key=error.key
            ) from error
    return ServerConfig(**found)  # type: ignore[arg-type] # each kind has made the type its key has


def format_server_config(config: ServerConfig) -> str:
    """Write a `config.properties`, settings that are at their default left out."""
    unset = ServerConfig()
    written = {
        key: each.kind.write(value)
        for key, each in _SETTINGS.items()
        if (value := getattr(config, each.name)) != getattr(unset, each.name)
    }
    return format_properties(written)


def _read(entry: PropertyLine, environ: Mapping[str, str] | None) -> object:
    key, text = entry.key, entry.value
    if environ is not None:
        text = _REFERENCE.sub(lambda found: _look_up(key, found[1], environ), text)
    if key not in _SETTINGS:
        raise ConfigError(f"unknown key {key!r}, which the server ignores; {_hint(key)}", key=key)
    kind = _SETTINGS[key].kind
    try:
        value = kind.read(text)
        problem = kind.problem(value)
    except ConfigError:
        raise
    except ValueError as error:
        problem = str(error)
    if problem:
        raise _SETTINGS[key].refuse(problem, text, _reason(text, environ))
    return value


def _look_up(key: str, name: str, environ: Mapping[str, str]) -> str:
    if name not in environ:
        raise ConfigError(f"{key} refers to $${name}$$, which the environment lacks", key=key)
    return environ[name]


def _hint(key: str) -> str:
    if key in _ELSEWHERE:
        return _ELSEWHERE[key]
    hint = near_match(key, _SETTINGS)
    return f"did you mean {hint}?" if hint else "remove it"


def _reason(text: str, environ: Mapping[str, str] | None) -> str:
    if environ is None and _REFERENCE.search(text):
        return "; its $$NAME$$ is filled in from the environment, which is not known here"
    if text != text.rstrip():
        return "; remove the spaces at the end of the line, Java keeps them"
    if "#" in text or "!" in text:
        return "; a comment needs a line of its own"
    return ""
