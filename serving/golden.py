"""Golden replies: one readable JSON file for each input, to compare later archives with."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from pathlib import Path

from makemar.archiver import write_text
from makemar.errors import ServingError
from makemar.serving.reply import Reply

__all__ = ["format_golden", "golden_path", "parse_golden", "read_golden", "write_golden"]

_SUFFIX = ".golden.json"


def golden_path(folder: Path, name: str) -> Path:
    """Return where an input's golden reply lies; its folders do not count."""
    return folder / f"{Path(name).name}{_SUFFIX}"


def format_golden(reply: Reply) -> str:
    """Write a reply: status, content type, and the body as JSON, as text or in base64."""
    data: dict[str, object] = {"status": reply.status}
    if kind := reply.headers.get("content-type"):
        data["content_type"] = kind
    return json.dumps(data | _body(reply.body), indent=2) + "\n"


def parse_golden(text: str) -> Reply:
    """Read a reply again; numbers and spaces of a JSON body may be written differently.

    Raises ValueError for what `format_golden` never writes.
    """
    data = json.loads(text)
    if not isinstance(data, dict) or not isinstance(data.get("status"), int):
        raise ValueError("there is no status in it")
    if "json" in data:
        body = json.dumps(data["json"]).encode("ascii")
    elif isinstance(data.get("text"), str):
        body = data["text"].encode("utf-8")
    elif isinstance(data.get("base64"), str):
        body = base64.b64decode(data["base64"], validate=True)
    else:
        raise ValueError("there is no json, text or base64 in it")
    kind = data.get("content_type")
    headers = {"content-type": kind} if isinstance(kind, str) else {}
    return Reply(status=data["status"], headers=headers, body=body)


def read_golden(path: Path) -> Reply | None:
    """Read a golden reply, None if there is no such file; raises ServingError if it is broken."""
    try:
        return parse_golden(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError, binascii.Error) as error:
        raise ServingError(
            f"{path}: is no golden reply: {error}; write it again with --update"
        ) from error


def write_golden(replies: Iterable[tuple[Path, Reply]]) -> tuple[Path, ...]:
    """Write golden replies, each file whole or not at all, and make the folder if it is not there.

    Raises ArchiveError or OSError if that cannot be done.
    """
    written = []
    for path, reply in replies:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, format_golden(reply), force=True)
        written.append(path)
    return tuple(written)


def _body(body: bytes) -> dict[str, object]:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode("ascii")}
    try:
        return {"json": json.loads(text)}
    except (ValueError, RecursionError):
        return {"text": text}
