"""The one place where HTTP happens: sessions, keys, paths, and failures to connect."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from makemar.errors import ServingError, UnreachableError
from makemar.serving.reply import Reply
from makemar.serving.responses import server_fault
from makemar.serving.tokens import TokenSource

if TYPE_CHECKING:
    import requests

__all__ = ["Transport"]

_CONNECT_PATIENCE = 5.0  # seconds at most to open a connection
_POOL = 128  # connections kept; a burst of requests is to arrive at once
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Transport:
    """Sends requests to one address and returns whole replies; safe to share among threads.

    `timeout` is in seconds, for the connection and for every silence of the server.
    """

    def __init__(self, url: str, *, tokens: TokenSource, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ServingError(f"{url!r} is not the URL of a server; write http://host:port")
        if timeout <= 0:
            raise ServingError(f"the timeout is {timeout} s; give more than 0")
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._tokens = tokens
        self._local = parts.hostname in _LOOPBACK
        self._lock = threading.Lock()
        self._opened: requests.Session | None = None

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def token_advice(self) -> str:
        """Say what to do about a refused key."""
        return self._tokens.advice()

    def send(
        self,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Reply:
        """Send one request and return what came back, whatever its status.

        `path` is a sequence of segments, encoded already. A refused key is read again and tried
        once more. Raises UnreachableError if nobody answers in time.
        """
        url = "/".join((self.url, *path)) + (f"?{urlencode(query)}" if query else "")
        patience = timeout or self.timeout
        token = self._tokens.current()
        reply = self._exchange(method, url, body, headers, token, patience)
        if _refused(reply):
            token = self._tokens.renewed(token)
            if token is not None:
                reply = self._exchange(method, url, body, headers, token, patience)
        return reply

    def _exchange(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        token: str | None,
        timeout: float,
    ) -> Reply:
        import requests

        session = self._session()

        def authorize(request: requests.PreparedRequest) -> requests.PreparedRequest:
            # As `auth`, so that a .netrc cannot put another header in its place.
            if token is not None:
                request.headers["Authorization"] = f"Bearer {token}"
            return request

        try:
            request = session.prepare_request(
                requests.Request(method, self.url, headers=headers, data=body, auth=authorize)
            )
            # Set afterwards: requests would decode `%74` back to `t`, see model_paths.
            request.url = url
            settings = session.merge_environment_settings(self.url, {}, False, None, None)
            response = session.send(
                request,
                timeout=(min(timeout, _CONNECT_PATIENCE), timeout),
                allow_redirects=False,
                **settings,
            )
            return Reply(
                status=response.status_code, headers=response.headers, body=response.content
            )
        except (requests.RequestException, UnicodeError) as error:
            raise self._unreachable(error, timeout) from error

    def _session(self) -> requests.Session:
        import requests
        from requests.adapters import HTTPAdapter

        with self._lock:
            if self._opened is None:
                session = requests.Session()
                # A proxy for the outer world must not see, or break, calls to this machine.
                session.trust_env = not self._local
                for scheme in ("http://", "https://"):
                    session.mount(scheme, HTTPAdapter(pool_maxsize=_POOL))
                self._opened = session
            return self._opened

    def _unreachable(self, error: Exception, timeout: float) -> ServingError:
        import requests

        start = "start one with `make-mar serve`, or give its URL"
        if isinstance(error, requests.exceptions.SSLError):
            why = "the TLS handshake failed; check the scheme and the certificate"
        elif isinstance(error, requests.ConnectTimeout):
            why = f"no connection in {min(timeout, _CONNECT_PATIENCE):g} s; {start}"
        elif isinstance(error, requests.Timeout):
            why = f"no answer in {timeout:g} s; the server may be busy, or has dropped the request"
        elif _caused_by(error, ConnectionRefusedError):
            why = f"no server listens there; {start}"
        elif isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
            why = "the connection broke; the server may be stopping, or the request too large"
        else:
            return ServingError(f"the request to {self.url} cannot be sent: {error}")
        return UnreachableError(f"{self.url}: {why}", url=self.url)


def _refused(reply: Reply) -> bool:
    fault = server_fault(reply)
    return fault is not None and fault.kind == "InvalidKeyException"


def _caused_by(error: BaseException, kind: type[BaseException]) -> bool:
    """Look for an exception of that kind among the causes, also where urllib3 keeps them."""
    todo: list[object] = [error]
    seen: set[int] = set()
    while todo:
        item = todo.pop()
        if not isinstance(item, BaseException) or id(item) in seen:
            continue
        if isinstance(item, kind):
            return True
        seen.add(id(item))
        todo += [item.__cause__, item.__context__, getattr(item, "reason", None), *item.args]
    return False
