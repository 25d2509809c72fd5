"""What the server's error answers mean, as exceptions that say what to do next."""

from __future__ import annotations

import json
from dataclasses import dataclass

from makemar.errors import (
    AuthorizationError,
    ModelConflictError,
    ModelNotFoundError,
    ResponseError,
    WorkersFailedError,
)
from makemar.serving.reply import Reply

__all__ = ["ServerFault", "error_for", "server_fault"]


@dataclass(frozen=True, kw_only=True)
class ServerFault:
    """An error that TorchServe itself answered: its own exception type, and its message."""

    kind: str
    message: str


@dataclass(frozen=True, kw_only=True)
class _Meaning:
    """How one kind of fault is told: for which status, kind and words, as what, with what advice.

    An empty kind or text matches all.
    """

    status: int
    advice: str
    kind: str = ""
    says: str = ""
    error: type[ResponseError] = ResponseError

    def fits(self, status: int, fault: ServerFault) -> bool:
        return (
            self.status == status
            and self.kind in ("", fault.kind)
            and self.says.lower() in fault.message.lower()
        )


# TorchServe 0.12 answers with statuses that mean something else in most places. First match wins.
_MEANINGS = (
    _Meaning(
        status=404,
        kind="ModelNotFoundException",
        says="Model not found at",
        error=ModelNotFoundError,
        advice="put the archive into the server's model store, or give a file:// URL",
    ),
    _Meaning(
        status=404,
        kind="ModelNotFoundException",
        says="does not match any allowed",
        error=ModelNotFoundError,
        advice="allow it with allowed_urls in config.properties, or copy it to the model store",
    ),
    _Meaning(
        status=404,
        kind="ModelNotFoundException",
        says="url",
        error=ModelNotFoundError,
        advice="give the name of an archive in the model store, or a URL without '..'",
    ),
    _Meaning(
        status=404,
        kind="ModelNotFoundException",
        error=ModelNotFoundError,
        advice="`make-mar models list` shows what is registered",
    ),
    _Meaning(
        status=404,
        kind="ModelVersionNotFoundException",
        error=ModelNotFoundError,
        advice="`make-mar models show MODEL` lists the versions",
    ),
    _Meaning(
        status=404,
        kind="ResourceNotFoundException",
        advice="TorchServe has no such path on this port; check the ports of both APIs",
    ),
    _Meaning(
        status=409,
        error=ModelConflictError,
        advice="unregister it first, or pack the archive with another version",
    ),
    _Meaning(
        status=405,
        advice="the model API is off; start the server with enable_model_api=true",
    ),
    _Meaning(
        status=403,
        kind="InvalidModelVersionException",
        advice="make another version the default first, or unregister the others",
    ),
    _Meaning(
        status=403,
        kind="NumberFormatException",
        advice="a number in the server's config.properties cannot be read (job_queue_size, "
        "default_response_timeout, models); correct it and restart the server",
    ),
    _Meaning(
        status=403,
        kind="IllegalArgumentException",
        advice="a value in the server's config.properties is out of range (job_queue_size); "
        "correct it and restart the server",
    ),
    _Meaning(
        status=400,
        says="pip package installation",
        advice="pip's own words are in the server's ts_log.log; correct the requirements file",
    ),
    _Meaning(
        status=400,
        says="Model name is not defined",
        advice="the archive has no manifest with a name; pack it with `make-mar pack`",
    ),
    _Meaning(
        status=500,
        says="Failed to start workers",
        error=WorkersFailedError,
        advice="the worker's own error is in the server's model_log.log",
    ),
    _Meaning(
        status=507,
        says="Failed to start workers",
        error=WorkersFailedError,
        advice="the model does not fit into memory; ask for fewer workers or a smaller model",
    ),
    _Meaning(
        status=500,
        says="Failed to save model",
        advice="the server cannot unpack the archive; see whether `make-mar inspect` can read it, "
        "and pack it again",
    ),
    _Meaning(
        status=500,
        says="Model file already exists",
        advice="the model store has a file of that name; give its name alone instead of a URL",
    ),
    _Meaning(
        status=500,
        says="Worker died",
        advice="the worker process ended or took longer than response_timeout; its own words are "
        "in the server's model_log.log",
    ),
    _Meaning(
        status=503,
        kind="ServiceUnavailableException",
        advice="the queue is full or there is no worker; `make-mar models show` tells which",
    ),
    _Meaning(
        status=503,
        says="Prediction failed",
        advice="the handler raised an error; it is in the server's model_log.log",
    ),
    _Meaning(
        status=507,
        says="Out of resources",
        advice="the handler ran out of memory; lower batch_size, the error is in model_log.log",
    ),
)


def server_fault(reply: Reply) -> ServerFault | None:
    """Recognise an error that TorchServe made, and not a handler.

    TorchServe 0.12 writes a JSON object of `code` (the status again), `type` (a Java exception)
    and perhaps `message`, and nothing else. The error bodies of makemar's handlers carry a
    `request_id` besides, so theirs are never taken for the server's. A body over
    `max_request_size` gets 413 and no body at all.
    """
    if reply.ok:
        return None
    if reply.status == 413 and not reply.body:
        return ServerFault(kind="", message="the request is larger than the server takes")
    try:
        data = json.loads(reply.body)
    except ValueError:
        return None
    if not isinstance(data, dict) or not {"code", "type"} <= data.keys() <= _BODY_KEYS:
        return None
    kind, message = data["type"], data.get("message", "")
    # A worker may answer 413 where the body says so and the status is 507.
    if not isinstance(data["code"], int) or not str(kind).endswith("Exception"):
        return None
    return ServerFault(kind=str(kind), message=str(message))


_BODY_KEYS = frozenset({"code", "type", "message"})


def error_for(reply: Reply, *, url: str, about: str, token_advice: str = "") -> ResponseError:
    """Turn an error answer into the exception that fits it.

    `about` says what was asked for, `token_advice` what to do if the key was refused.
    """
    fault = server_fault(reply)
    if fault is None:
        return ResponseError(
            f"{about}: {url} answered {reply.status}, and not in TorchServe's words; check that "
            "the URL is TorchServe's",
            status=reply.status,
            url=url,
        )
    said = fault.message.strip().rstrip(".") or fault.kind
    if fault.kind == "InvalidKeyException":
        return AuthorizationError(
            f"{about}: {url} refused the key; {token_advice}",
            status=reply.status,
            url=url,
            kind=fault.kind,
        )
    if reply.status == 413 and not fault.kind:
        advice = "raise max_request_size (6553500 bytes by default) in its config.properties"
        return ResponseError(f"{about}: {said}; {advice}", status=413, url=url)
    meaning = next((item for item in _MEANINGS if item.fits(reply.status, fault)), None)
    error = meaning.error if meaning else ResponseError
    advice = f"; {meaning.advice}" if meaning else f" (status {reply.status}, {fault.kind})"
    return error(f"{about}: {said}{advice}", status=reply.status, url=url, kind=fault.kind)
