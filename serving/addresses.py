"""Where a server listens: the addresses in its configuration, free ports, busy ports."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from makemar.configs import ServerConfig
from makemar.errors import ServingError

__all__ = [
    "PortInUseError",
    "ServerAddresses",
    "check_ports",
    "server_addresses",
    "with_free_ports",
    "with_ports",
]

_LOOPBACK = "127.0.0.1"
# TorchServe 0.12: the ports of an address that names none, without and with TLS.
_PORTS = {
    "inference_address": (80, 443),
    "management_address": (8081, 8444),
    "metrics_address": (8082, 8445),
}
# And the whole addresses of a configuration that has none.
_DEFAULTS = {
    "inference_address": "http://127.0.0.1:8080",
    "management_address": "http://127.0.0.1:8081",
    "metrics_address": "http://127.0.0.1:8082",
}
_GRPC = {"grpc_inference": 7070, "grpc_management": 7071}
_EVERYBODY = "0.0.0.0"  # noqa: S104 - recognised, not chosen


class PortInUseError(ServingError):
    """Somebody else listens on a port that a server is to have; another port would do."""


@dataclass(frozen=True, kw_only=True)
class ServerAddresses:
    """Where a client on this machine reaches a server: three URLs and two `host:port` of gRPC."""

    inference: str
    management: str
    metrics: str
    grpc_inference: str
    grpc_management: str


@dataclass(frozen=True, kw_only=True)
class _Endpoint:
    """One address that a server binds, and the key that says so."""

    key: str
    scheme: str
    host: str
    port: int

    @property
    def target(self) -> str:
        """`host:port` as a client writes it: an address for everybody is reached on loopback."""
        host = _LOOPBACK if self.host == _EVERYBODY else self.host
        return f"{host}:{self.port}"


def server_addresses(config: ServerConfig) -> ServerAddresses:
    """Tell where a server with this configuration is reached.

    Raises ServingError for an address that is no URL, such as a unix socket.
    """
    at = {item.key: item for item in _endpoints(config)}
    urls = {key: f"{at[key].scheme}://{at[key].target}" for key in _DEFAULTS}
    return ServerAddresses(
        inference=urls["inference_address"],
        management=urls["management_address"],
        metrics=urls["metrics_address"],
        grpc_inference=at["grpc_inference_port"].target,
        grpc_management=at["grpc_management_port"].target,
    )


def with_free_ports(config: ServerConfig) -> ServerConfig:
    """Give a configuration five ports that nobody uses now, hosts and schemes unchanged."""
    endpoints = _endpoints(config)
    with contextlib.ExitStack() as open_sockets:
        # All are held until the last is found, so that no port is given out twice.
        ports = {
            item.key: open_sockets.enter_context(_bind(item.host, 0)).getsockname()[1]
            for item in endpoints
        }
    return _move(config, ports)


def with_ports(config: ServerConfig, first: int) -> ServerConfig:
    """Move inference to port `first`, management and metrics to the next two, gRPC to two more.

    Hosts and schemes stay. Raises ServingError if there are no such ports.
    """
    endpoints = _endpoints(config)
    last = first + len(endpoints) - 1
    if not 0 < first <= last < 2**16:
        raise ServingError(f"there are no ports {first} to {last}; choose a smaller number")
    return _move(config, {item.key: first + offset for offset, item in enumerate(endpoints)})


def _move(config: ServerConfig, ports: Mapping[str, int]) -> ServerConfig:
    """Give every endpoint its port."""
    urls = {
        item.key: f"{item.scheme}://{item.host}:{ports[item.key]}" for item in _endpoints(config)
    }
    return replace(
        config,
        inference_address=urls["inference_address"],
        management_address=urls["management_address"],
        metrics_address=urls["metrics_address"],
        grpc_inference_port=ports["grpc_inference_port"],
        grpc_management_port=ports["grpc_management_port"],
    )


def check_ports(config: ServerConfig) -> None:
    """Raise PortInUseError, naming port, key and holder, if a port of this configuration is busy.

    Raises ServingError for a port that is given twice, or an address that is not this machine's.
    """
    seen: set[tuple[str, int]] = set()
    for item in _endpoints(config):
        # One address for inference and management is allowed: both APIs are served there then.
        if (item.host, item.port) in seen and item.scheme:
            continue
        if (item.host, item.port) in seen:
            raise ServingError(f"{item.key} {item.port} is taken by another address; change one")
        seen.add((item.host, item.port))
        try:
            _bind(item.host, item.port).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUseError(
                    f"port {item.port} ({item.key}) is in use{_holder(item.port)}; stop that, or "
                    "choose other ports (make-mar serve --port)"
                ) from error
            raise ServingError(
                f"cannot listen on {item.target} ({item.key}): {error.strerror or error}"
            ) from error


def _endpoints(config: ServerConfig) -> tuple[_Endpoint, ...]:
    """List what the server would bind."""
    urls = [_url_endpoint(key, getattr(config, key) or _DEFAULTS[key]) for key in _DEFAULTS]
    return (*urls, *(_grpc_endpoint(config, name) for name in _GRPC))


def _url_endpoint(key: str, url: str) -> _Endpoint:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as error:
        raise ServingError(f"{key} {url!r} has no valid port; write http://host:port") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServingError(f"{key} {url!r} cannot be reached by a client; write http://host:port")
    if port is None:
        port = _PORTS[key][parts.scheme == "https"]
    return _Endpoint(key=key, scheme=parts.scheme, host=parts.hostname, port=port)


def _grpc_endpoint(config: ServerConfig, name: str) -> _Endpoint:
    host = getattr(config, f"{name}_address") or _LOOPBACK
    port = getattr(config, f"{name}_port") or _GRPC[name]
    return _Endpoint(key=f"{name}_port", scheme="", host=host, port=port)


def _bind(host: str, port: int) -> socket.socket:
    """Bind as a server would, so that the remains of closed connections are no hindrance."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound


def _holder(port: int) -> str:
    """Name the process that listens on a port, if this user may know."""
    import psutil

    try:
        for item in psutil.net_connections("tcp"):
            if item.status == psutil.CONN_LISTEN and item.laddr and item.laddr.port == port:
                return f" by {psutil.Process(item.pid).name()} (pid {item.pid})"
    except (psutil.Error, OSError):
        pass
    return ""
