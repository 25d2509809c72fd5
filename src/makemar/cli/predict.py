"""`make-mar predict`."""

from __future__ import annotations

import base64
import mimetypes
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from makemar.cli.connection import (
    DEFAULT_WORK_DIR,
    InferenceUrl,
    KeyFile,
    ModelVersion,
    Timeout,
    WorkDir,
    open_inference,
)
from makemar.cli.failure import EXIT_FAILURE, complain, one_line
from makemar.cli.output import write_json
from makemar.errors import AuthorizationError, ModelNotFoundError, ResponseError, ServingError

if TYPE_CHECKING:
    from makemar.serving import InferenceClient, Reply

__all__ = ["predict"]

_STDIN = "-"
_UNKNOWN_TYPE = "application/octet-stream"


@dataclass(frozen=True, kw_only=True)
class _Input:
    """One file to send."""

    name: str
    body: bytes
    content_type: str


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What one file got: a reply, or the server's refusal; `seconds` as the client saw it."""

    name: str
    seconds: float
    reply: Reply | None = None
    refusal: ResponseError | None = None

    @property
    def failed(self) -> bool:
        return self.reply is None or not self.reply.ok


def predict(
    model: Annotated[str, typer.Argument(help="The model's name.")],
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Inputs; - is stdin.")],
    version: ModelVersion = None,
    at_once: Annotated[
        bool,
        typer.Option(
            "--at-once", help="Send them at the same time, dozens at most, to share batches."
        ),
    ] = False,
    content_type: Annotated[
        str | None, typer.Option(help="Of every file [default: guessed from its name].")
    ] = None,
    work_dir: WorkDir = DEFAULT_WORK_DIR,
    url: InferenceUrl = None,
    key_file: KeyFile = None,
    timeout: Timeout = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Send files to a model and print its replies.

    TorchServe parses what is sent as application/json and hands the rest over as it is. Exits 1 if
    a reply is an error.
    """
    inputs = [_read(name, content_type) for name in files]
    with open_inference(work_dir, url, key_file, timeout) as client:
        outcomes = _send(client, model, version, inputs, at_once=at_once)
        if as_json:
            told = list(outcomes)
            write_json([_to_data(outcome) for outcome in told])
        else:
            told = []
            for outcome in outcomes:
                _print(outcome, titled=len(inputs) > 1)
                told.append(outcome)
    if any(outcome.failed for outcome in told):
        raise typer.Exit(EXIT_FAILURE)


def _read(name: str, content_type: str | None) -> _Input:
    """Read a file whole; all are read before the first is sent, so that a typo sends nothing."""
    body = sys.stdin.buffer.read() if name == _STDIN else Path(name).read_bytes()
    guessed = content_type or mimetypes.guess_type(name)[0] or _UNKNOWN_TYPE
    return _Input(name=name, body=body, content_type=guessed)


def _send(
    client: InferenceClient,
    model: str,
    version: str | None,
    inputs: Sequence[_Input],
    *,
    at_once: bool,
) -> Iterator[_Outcome]:
    """Send the inputs, one after the other or all together; outcomes come in their order."""

    def ask(item: _Input) -> _Outcome:
        started = time.perf_counter()
        try:
            reply = client.predict(
                model, item.body, version=version, content_type=item.content_type
            )
        except (AuthorizationError, ModelNotFoundError):
            raise  # no other file would fare better
        except ResponseError as error:
            taken = time.perf_counter() - started
            return _Outcome(name=item.name, seconds=taken, refusal=error)
        return _Outcome(name=item.name, seconds=time.perf_counter() - started, reply=reply)

    if not at_once:
        yield from map(ask, inputs)
        return
    from concurrent.futures import ThreadPoolExecutor

    from makemar.serving import DEFAULT_CONCURRENCY

    with ThreadPoolExecutor(max_workers=min(len(inputs), DEFAULT_CONCURRENCY)) as pool:
        yield from pool.map(ask, inputs)


def _print(outcome: _Outcome, *, titled: bool) -> None:
    """Write a reply's body as it came; say on stderr what went wrong."""
    reply = outcome.reply
    if reply is None:
        complain(f"{outcome.name}: {outcome.refusal}")
        return
    if titled:
        title = f"==> {one_line(outcome.name)}: {reply.status}, {outcome.seconds * 1000:.0f} ms <=="
        typer.echo(title)
    _write_body(reply)
    if not reply.ok:
        complain(f"{outcome.name}: the model answered {reply.status}")


def _write_body(reply: Reply) -> None:
    sys.stdout.flush()
    try:
        text = reply.body.decode("utf-8")
    except UnicodeDecodeError:
        if sys.stdout.isatty():
            complain(f"{len(reply.body)} bytes that are not text; redirect the output to keep them")
        else:
            sys.stdout.buffer.write(reply.body)
        return
    typer.echo(text, nl=not text.endswith("\n"))


def _to_data(outcome: _Outcome) -> dict[str, object]:
    """Write one outcome for JSON: the body parsed if it is JSON, text, or else base64."""
    data: dict[str, object] = {"file": outcome.name, "seconds": round(outcome.seconds, 6)}
    reply = outcome.reply
    if reply is None:
        refusal = outcome.refusal
        status = None if refusal is None else refusal.status
        return data | {"status": status, "error": str(refusal)}
    data |= {"status": reply.status, "content_type": reply.headers.get("content-type")}
    try:
        return data | {"body": reply.json()}
    except ServingError:
        pass
    try:
        return data | {"body": reply.body.decode("utf-8")}
    except UnicodeDecodeError:
        return data | {"body_base64": base64.b64encode(reply.body).decode("ascii")}
