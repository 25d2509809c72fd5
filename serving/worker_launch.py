"""Everything about the start of a worker that can be known before it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from makemar.archiver import Archive
from makemar.configs import ModelDefaults, ServerConfig
from makemar.errors import ServingError
from makemar.serving.worker_protocol import LoadOrder

__all__ = ["WorkerLaunch", "plan_worker"]

_DEFAULT_TIMEOUT = 120  # seconds; TorchServe 0.12
_LARGEST_BODY = 6553500  # bytes; TorchServe 0.12
_SOCKET = ".ts.sock.9000"  # the worker wants a number at its end
# What a model may need of this machine. Nothing else gets in: an archive's code is not to see
# whatever keys lie in the environment, nor find modules that no server has.
_PASSED = ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TZ")
_PASSED_PREFIXES = ("CUDA_", "KMP_", "LC_", "MKL_", "NVIDIA_", "OMP_", "OPENBLAS_", "TORCH")
_SITE = ("site-packages", "dist-packages")


@dataclass(frozen=True, kw_only=True)
class WorkerLaunch:
    """One start of a worker: what to run and where, what to load, and for how long to wait.

    Timeouts are in seconds, `longest` in bytes.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str] = field(repr=False)
    socket: Path
    order: LoadOrder
    load_timeout: float
    response_timeout: float
    longest: int


def plan_worker(
    archive: Archive,
    *,
    model_dir: Path,
    tmp: Path,
    home: Path,
    config: ServerConfig,
    batch_size: int | None,
    gpu_id: int | None,
    environ: Mapping[str, str],
    additions: Mapping[str, str],
) -> WorkerLaunch:
    """Plan a start; nothing is written or run.

    `home` holds TorchServe's package `ts`, `environ` is this process's, of which a part is passed
    on, and `additions` comes on top of that. Raises ServingError for an archive whose worker
    cannot run without the server.
    """
    _check(archive, config)
    socket = tmp / _SOCKET
    settings = _Settings(archive, config)
    command = (
        _interpreter(archive),
        str(home / "ts" / "model_service_worker.py"),
        *("--sock-type", "unix", "--sock-name", str(socket)),
        *("--metrics-config", config.metrics_config or str(home / "ts/configs/metrics.yaml")),
        *(("--async",) if (archive.config or {}).get("asyncCommunication") is True else ()),
    )
    handler = archive.manifest.handler
    return WorkerLaunch(
        command=command,
        environ={
            **_passed_on(environ),
            **additions,
            **_own_variables(config, tmp),
            "PYTHONPATH": _python_path(handler, model_dir, home, additions.get("PYTHONPATH", "")),
        },
        socket=socket,
        order=LoadOrder(
            model_name=archive.manifest.model_name,
            model_dir=str(model_dir),
            handler=handler,
            batch_size=batch_size or settings.batch_size,
            gpu_id=gpu_id,
            envelope=config.service_envelope or "",
            limit_max_image_pixels=config.limit_max_image_pixels is not False,
        ),
        load_timeout=settings.timeout("startup"),
        response_timeout=settings.timeout("response"),
        longest=config.max_response_size or _LARGEST_BODY,
    )


class _Settings:
    """TorchServe's order of precedence, for a registration that says nothing itself."""

    def __init__(self, archive: Archive, config: ServerConfig) -> None:
        manifest = archive.manifest
        versions = config.models.get(manifest.model_name, {})
        self._config, self._own = config, archive.config
        self._defaults = versions.get(manifest.effective_version, ModelDefaults())

    @property
    def batch_size(self) -> int:
        """The archive's own, else that of the models JSON."""
        own = _whole(self._own or {}, "batchSize")
        return max(1, own) if own is not None else self._defaults.batch_size or 1

    def timeout(self, kind: str) -> float:
        """TorchServe 0.12: an archive with a configuration file is asked alone."""
        if self._own is not None:
            return float(_whole(self._own, f"{kind}Timeout") or _DEFAULT_TIMEOUT)
        told: int | None = getattr(self._defaults, f"{kind}_timeout")
        told = told or getattr(self._config, f"default_{kind}_timeout")
        return float(told or _DEFAULT_TIMEOUT)


def _whole(settings: Mapping[str, object], key: str) -> int | None:
    value = settings.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _check(archive: Archive, config: ServerConfig) -> None:
    kind = (archive.config or {}).get("parallelType")
    if kind is not None:
        raise ServingError(
            f"{archive.path}: parallelType {kind} takes several processes under torchrun; "
            "start a server for it with `make-mar serve`"
        )
    if archive.manifest.runtime == "LSP":
        raise ServingError(f"{archive.path}: runtime LSP is no Python; there is no worker for it")
    if config.install_py_dep_per_model and archive.manifest.requirements_file:
        raise ServingError(
            f"{archive.path}: a server with install_py_dep_per_model installs its requirements, "
            "this worker does not; install them here and leave that key out"
        )


def _interpreter(archive: Archive) -> str:
    """TorchServe 0.12: `python` is the server's own, `python3` the first one in PATH."""
    return sys.executable if archive.manifest.runtime == "python" else archive.manifest.runtime


def _passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in _PASSED or name.startswith(_PASSED_PREFIXES)
    }


def _own_variables(config: ServerConfig, tmp: Path) -> dict[str, str]:
    """Set what the server sets, and what keeps the folder clean and the last words whole."""
    return {
        "TS_DECODE_INPUT_REQUEST": "false" if config.decode_input_request is False else "true",
        "TS_IPEX_ENABLE": "true" if config.ipex_enable else "false",
        "TS_IPEX_GPU_ENABLE": "true" if config.ipex_gpu_enable else "false",
        "TMPDIR": str(tmp),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _python_path(handler: str, model_dir: Path, home: Path, before: str) -> str:
    """TorchServe 0.12's order: the handler's folder, what was set before, the model, the server."""
    module, colon, _ = handler.partition(":")
    folder = module.rpartition("/")[0] if colon else ""
    server = "" if any(name in str(home) for name in _SITE) else str(home)
    return os.pathsep.join(filter(None, (folder, before, str(model_dir), server)))
