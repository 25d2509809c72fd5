"""One batch: sent to a worker, and its answer gathered from as many messages as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from makemar.errors import ServingError
from makemar.serving.worker_connection import WorkerConnection
from makemar.serving.worker_launch import WorkerLaunch
from makemar.serving.worker_log import find_plain_fault
from makemar.serving.worker_messages import WorkerReply, WorkerRequest
from makemar.serving.worker_process import WorkerProcess
from makemar.serving.worker_protocol import Prediction, WorkerMessage, encode_predict

__all__ = ["exchange", "gather"]

_OK = 200
_STREAM = "ts_stream_next"
# TorchServe 0.12: a worker that answers 413 to a whole batch has the clients get 507.
_TOO_LARGE, _OUT_OF_RESOURCES = 413, 507


def exchange(
    process: WorkerProcess,
    connection: WorkerConnection,
    launch: WorkerLaunch,
    requests: Sequence[WorkerRequest],
) -> tuple[WorkerReply, ...]:
    """Send a batch and wait for each reply's last part; replies come in the requests' order.

    Raises WorkerError for a worker that dies or is too slow, ServingError for one that answers
    somebody who did not ask.
    """
    mark, seconds = process.log.mark(), launch.response_timeout
    replies: dict[str, WorkerReply] = {}
    open_ids = {request.request_id for request in requests}
    try:
        connection.send(encode_predict(requests), seconds=seconds)
        while open_ids:
            message = connection.receive(seconds=seconds, longest=launch.longest)
            open_ids -= gather(message, replies, open_ids)
    except TimeoutError as error:
        what = f"did not answer a batch of {len(requests)}"
        raise process.hang(what, seconds, mark) from error
    except (ConnectionError, EOFError) as error:
        raise process.death(f"at a batch of {len(requests)}", mark) from error
    found = tuple(replies[request.request_id] for request in requests)
    if not any(reply.failure for reply in found):
        return found
    fault = find_plain_fault(process.log.since(mark))
    reason = "" if fault is None else f": {fault}"
    return tuple(replace(r, failure=r.failure + reason) if r.failure else r for r in found)


def gather(message: WorkerMessage, replies: dict[str, WorkerReply], open_ids: set[str]) -> set[str]:
    """Put a message's parts to the replies; return the ids that nothing more comes for."""
    done = set()
    for prediction in message.predictions:
        name = prediction.request_id
        if name not in open_ids:
            raise ServingError(f"the worker answered {name!r}, which was not asked or was answered")
        begun = replies.get(name)
        more = message.code == _OK and prediction.headers.get(_STREAM) == "true"
        replies[name] = _join(begun, prediction, message)
        if not more:
            done.add(name)
    return done


def _join(begun: WorkerReply | None, part: Prediction, message: WorkerMessage) -> WorkerReply:
    """Make a reply of its first part, or put another one to it; status and headers stay."""
    from requests.structures import CaseInsensitiveDict

    if begun is not None:
        parts = (*begun.parts, part.body)
        return replace(
            begun,
            body=b"".join(parts),
            parts=parts,
            failure="" if message.code == _OK else message.text,
            cut_off=message.code != _OK or _STREAM not in part.headers,
        )
    code = message.code
    failed = code != _OK
    return WorkerReply(
        request_id=part.request_id,
        status=(_OUT_OF_RESOURCES if code == _TOO_LARGE else code) if failed else part.status,
        phrase=message.text if failed else part.phrase,
        headers=CaseInsensitiveDict(part.headers),
        body=part.body,
        failure=message.text if failed else "",
        parts=(part.body,),
    )
