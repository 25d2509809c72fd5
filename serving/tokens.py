"""The keys that TorchServe asks for, and where a client gets them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal, Protocol

from makemar.errors import ServingError

__all__ = ["FileToken", "KeyFile", "StaticToken", "TokenSource", "token_source"]

Api = Literal["management", "inference"]


@dataclass(frozen=True, kw_only=True)
class KeyFile:
    """What a running server wrote to its `key_file.json`; the keys stay out of the repr.

    TorchServe 0.12: one key for the management API, one for everything on the inference port, and
    one that renews the other two. The first two expire (`token_expiration_min`, 60 by default)
    and are not renewed by themselves.
    """

    path: Path
    management: str = field(repr=False)
    inference: str = field(repr=False)
    api: str = field(repr=False)
    management_expires: datetime | None
    inference_expires: datetime | None

    @classmethod
    def read(cls, path: Path) -> KeyFile:
        """Read the file; raise ServingError if it is not there or not a key file."""
        try:
            data = json.loads(path.read_bytes())
            return cls(
                path=path,
                management=_key(data, "management"),
                inference=_key(data, "inference"),
                api=_key(data, "API"),
                management_expires=_expiry(data["management"]),
                inference_expires=_expiry(data["inference"]),
            )
        except FileNotFoundError as error:
            raise ServingError(
                f"no key file at {path}; give the key_file.json in the server's work directory, "
                "or start the server"
            ) from error
        except OSError as error:
            raise ServingError(f"cannot read the key file {path}: {error.strerror}") from error
        except (ValueError, LookupError, TypeError) as error:
            # The parser's own message may quote the file, so it stays out of ours.
            raise ServingError(
                f"{path} is not a key file of TorchServe; give the key_file.json in the server's "
                "work directory"
            ) from error

    def key(self, api: Api) -> str:
        """Return the key of one API."""
        return self.management if api == "management" else self.inference

    def expires(self, api: Api) -> datetime | None:
        """Return when the key of one API expires, in UTC; None if the file does not say."""
        return self.management_expires if api == "management" else self.inference_expires


class TokenSource(Protocol):
    """Where a client gets the key that it sends."""

    def current(self) -> str | None:
        """Return the key to send, or None to send none."""

    def renewed(self, refused: str | None) -> str | None:
        """Return another key to try once after `refused` was, or None if there is none."""

    def advice(self) -> str:
        """Say what to do about a refusal."""


class StaticToken:
    """One key that never changes, or none."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token

    def __repr__(self) -> str:
        return "StaticToken(***)" if self._token else "StaticToken()"

    def current(self) -> str | None:
        """Return the key."""
        return self._token

    def renewed(self, refused: str | None) -> str | None:  # noqa: ARG002 - the protocol's
        """Return None: there is no other key."""
        return None

    def advice(self) -> str:
        """Tell where keys are."""
        if self._token is None:
            return "no key was sent; give the key_file.json in the server's work directory"
        return (
            "the key that was given (MAKEMAR_TOKEN, if it is set) is not this server's; take "
            "the one in the key_file.json of its work directory"
        )


class FileToken:
    """The key of one API, out of a key file that may change while the client lives.

    The file is read at the first call, and again after a refusal: a restart or a renewal of the
    server writes new keys. While there is no file no key is sent: the server's answer, or its
    silence, tells more than the missing file. Safe to share among threads: what one of them reads
    is the others' too.
    """

    def __init__(self, path: Path, api: Api) -> None:
        self._path = path
        self._api: Api = api
        self._keys: KeyFile | None = None  # another thread may set it between two looks

    def __repr__(self) -> str:
        return f"FileToken({str(self._path)!r}, {self._api!r})"

    def current(self) -> str | None:
        """Return the key, as the file had it when it was last read."""
        return self._key_of(self._keys or self._read())

    def renewed(self, refused: str | None) -> str | None:
        """Return a key that is not the refused one: a thread may have read it, or the file has it.

        None if neither has.
        """
        key = self._key_of(self._keys)
        if key is None or key == refused:
            key = self._key_of(self._read())
        return key if key != refused else None

    def advice(self) -> str:
        """Tell whether the key is missing, too old or of another server."""
        keys = self._keys
        if keys is None:
            return f"there is no {self._path}; give the key_file.json in its work directory"
        expires = keys.expires(self._api)
        if expires is not None and expires < datetime.now(timezone.utc):
            return (
                f"the key in {self._path} expired at {expires:%Y-%m-%d %H:%M} UTC; restart the "
                "server, or renew it at /token"
            )
        return f"{self._path} does not belong to this server; give the one in its work directory"

    def _read(self) -> KeyFile | None:
        keys = KeyFile.read(self._path) if self._path.exists() else None
        self._keys = keys
        return keys

    def _key_of(self, keys: KeyFile | None) -> str | None:
        return None if keys is None else keys.key(self._api)


def token_source(api: Api, *, key_file: Path | None, token: str | None) -> TokenSource:
    """Choose where a client's key comes from: a given one first, then a file, else none."""
    if token is None and key_file is not None:
        return FileToken(key_file, api)
    if token is not None and (not token or any(character.isspace() for character in token)):
        raise ServingError("the token is empty or has a space in it; take it from key_file.json")
    return StaticToken(token)


def _key(data: Mapping[str, Mapping[str, object]], api: str) -> str:
    key = data[api]["key"]
    if not isinstance(key, str) or not key:
        raise TypeError(api)
    return key


def _expiry(entry: Mapping[str, object]) -> datetime | None:
    """Read `2026-12-01T12:45:37.919643310Z`, whose nanoseconds Python cannot."""
    text = entry.get("expiration time")
    if not isinstance(text, str):
        return None
    seconds = text.rstrip("Z").partition(".")[0]
    try:
        return datetime.fromisoformat(seconds).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
