"""Everything about a start that can be known before it: configuration, command, environment."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from makemar.configs import (
    ModelDefaults,
    ServerConfig,
    format_properties,
    format_server_config,
    parse_server_config,
)
from makemar.errors import ServingError
from makemar.serving.addresses import ServerAddresses, server_addresses
from makemar.serving.archive_links import ArchiveLink
from makemar.serving.model_settings import ModelSettings
from makemar.serving.work_dir import WorkDir

__all__ = [
    "Launch",
    "effective_config",
    "loads_at_start",
    "plan_launch",
    "torchserve_home",
]

_MAIN = "org.pytorch.serve.ModelServer"
_LOG_OPTION = "-Dlog4j.configurationFile="
# Put on top of the server's own: its log files stay, but what fills them is not printed as well,
# into a file that nobody would ever rotate.
_LOG_CONFIG = """\
<Configuration>
  <Loggers>
    <Root level="info">
      <AppenderRef ref="STDOUT" level="error"/>
    </Root>
  </Loggers>
</Configuration>
"""
# Keys that name a file: the server's current folder is not the caller's.
_PATHS = (
    "model_store",
    "workflow_store",
    "metrics_config",
    "keystore",
    "private_key_file",
    "certificate_file",
    "cpp_log_config",
    "plugins_path",
)
# Keys that decide how a server is reached and what it loads. TorchServe 0.12: a variable `TS_` and
# the key beats the file, if the file sets enable_envvars_config.
_OVERRIDDEN = (
    "inference_address",
    "management_address",
    "metrics_address",
    "grpc_inference_address",
    "grpc_management_address",
    "grpc_inference_port",
    "grpc_management_port",
    "model_store",
    "load_models",
    "enable_model_api",
    "disable_token_authorization",
)
# These must not reach the server: what they say is in its file by then, and the first one would
# replace that file.
_HIDDEN = frozenset({"TS_CONFIG_FILE", *(f"TS_{key.upper()}" for key in _OVERRIDDEN)})


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One start of Java: what to write, what to run, and where it will listen."""

    config: ServerConfig
    addresses: ServerAddresses
    texts: Mapping[Path, str] = field(repr=False)
    command: tuple[str, ...]
    environ: Mapping[str, str] = field(repr=False)


def torchserve_home() -> Path:
    """Find the folder that holds TorchServe's package `ts`.

    Raises ServingError if TorchServe, or what its workers import, is not installed.
    """
    # find_spec only looks: torch alone would take seconds to import.
    spec = importlib.util.find_spec("ts")
    folders = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    found = [place for place in folders if (place / "frontend" / "model-server.jar").is_file()]
    missing = [name for name in ("torch", "yaml") if importlib.util.find_spec(name) is None]
    if not found or missing:
        absent = "torchserve" if not found else missing[0]
        raise ServingError(f"{absent} is not installed here; pip install makemar[serve]")
    return found[0].parent


def loads_at_start(config: ServerConfig) -> bool:
    """Whether the archives come with the server's start instead of through its management API."""
    return config.enable_model_api is False or config.load_models == ("all",)


def effective_config(config: ServerConfig, environ: Mapping[str, str]) -> ServerConfig:
    """Put the values of `TS_` variables into a configuration that allows it.

    Raises ConfigError for one that the server could not read.
    """
    if not config.enable_envvars_config:
        return config
    names = {key: f"TS_{key.upper()}" for key in _OVERRIDDEN}
    told = {key: environ[name] for key, name in names.items() if name in environ}
    found = parse_server_config(format_properties(told))
    changes: dict[str, Any] = {key: getattr(found, key) for key in told}
    return replace(config, **changes)


def plan_launch(
    config: ServerConfig,
    *,
    work_dir: WorkDir,
    java: Path,
    home: Path,
    links: Sequence[ArchiveLink],
    settings: ModelSettings,
    environ: Mapping[str, str],
) -> Launch:
    """Plan a start with this configuration; nothing is written or run.

    The server's model store is the one in `work_dir` unless the configuration names one. The model
    API is on unless the configuration says no: then the archives are loaded at start.
    """
    config = _absolute(config)
    if config.enable_model_api is None:
        config = replace(config, enable_model_api=True)
    if loads_at_start(config):
        config = _with_models(config, links, settings)
    store = Path(config.model_store) if config.model_store else work_dir.model_store
    config = replace(config, model_store=str(store))
    own = {
        "TMPDIR": str(work_dir.tmp),  # Python's, in the workers
        "TEMP": str(work_dir.tmp),
        "LOG_LOCATION": str(work_dir.logs),
        "METRICS_LOCATION": str(work_dir.logs),
    }
    return Launch(
        config=config,
        addresses=server_addresses(config),
        texts={
            work_dir.config_file: format_server_config(config),
            work_dir.log_config: _LOG_CONFIG,
        },
        command=_command(config, work_dir=work_dir, java=java, home=home, store=store),
        environ={key: text for key, text in environ.items() if key not in _HIDDEN} | own,
    )


def _absolute(config: ServerConfig) -> ServerConfig:
    """Make relative paths absolute, as seen from the caller."""
    given = {key: getattr(config, key) for key in _PATHS}
    changes: dict[str, Any] = {
        key: str(Path(text).absolute()) for key, text in given.items() if text
    }
    return replace(config, **changes)


def _with_models(
    config: ServerConfig, links: Sequence[ArchiveLink], settings: ModelSettings
) -> ServerConfig:
    """Have the archives loaded at start, each with its settings in the models JSON."""
    models = {name: dict(versions) for name, versions in config.models.items()}
    for link in links:
        versions = models.setdefault(link.model, {})
        before = versions.get(link.version, ModelDefaults())
        versions[link.version] = replace(
            before,
            min_workers=settings.workers,
            max_workers=settings.workers,
            batch_size=settings.batch_size or before.batch_size,
            max_batch_delay=settings.max_batch_delay or before.max_batch_delay,
        )
    listed = config.load_models or ()
    if listed != ("all",):
        listed += tuple(link.name for link in links if link.name not in listed)
    return replace(config, models=models, load_models=listed or None)


def _command(
    config: ServerConfig, *, work_dir: WorkDir, java: Path, home: Path, store: Path
) -> tuple[str, ...]:
    """Write the command that TorchServe's launcher would run.

    Java is started directly: the launcher drops its exit code, and keeps one pid file for all
    servers of a temporary folder.
    """
    options = (config.vmargs or "").split()
    if not any("log4j" in option and "configurationFile=" in option for option in options):
        options.append(f"{_LOG_OPTION}classpath:log4j2.xml,{work_dir.log_config}")
    jars = str(home / "ts" / "frontend" / "*")
    if config.plugins_path:
        plugins = config.plugins_path
        jars += f":{plugins}" if "*" in plugins else f":{plugins}/*"
    return (
        str(java),
        f"-Dmodel_server_home={home}",
        f"-Djava.io.tmpdir={work_dir.tmp}",
        *options,
        "-cp",
        jars,
        _MAIN,
        "--python",
        sys.executable,
        "-f",
        str(work_dir.config_file),
        "-s",
        str(store),
        "-ncs",
    )
