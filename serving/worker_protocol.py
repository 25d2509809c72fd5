"""The binary protocol between TorchServe 0.12 and its Python workers.

Numbers are signed, 32 bits, most significant byte first. A text or a blob is its length and its
bytes; -1 in place of a length ends a list.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from makemar.errors import ServingError
from makemar.serving.worker_messages import WorkerRequest

__all__ = [
    "LoadOrder",
    "Prediction",
    "WorkerMessage",
    "encode_load",
    "encode_predict",
    "read_message",
]

_LOAD, _PREDICT = b"L", b"I"
_NUMBER = struct.Struct("!i")
_END = _NUMBER.pack(-1)
_ON_CPU = -1

# Returns exactly so many bytes, or raises.
Read = Callable[[int], bytes]


@dataclass(frozen=True, kw_only=True)
class LoadOrder:
    """What a worker is told to load; `gpu_id` None means the CPU."""

    model_name: str
    model_dir: str
    handler: str
    batch_size: int
    gpu_id: int | None = None
    envelope: str = ""
    limit_max_image_pixels: bool = True


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One request's part of a message."""

    request_id: str
    status: int
    phrase: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class WorkerMessage:
    """One message of a worker; with a `code` other than 200 it is about the whole batch."""

    code: int
    text: str
    predictions: tuple[Prediction, ...] = ()


def encode_load(order: LoadOrder) -> bytes:
    """Write the first message that a worker gets."""
    return b"".join(
        (
            _LOAD,
            _text(order.model_name),
            _text(order.model_dir),
            _NUMBER.pack(order.batch_size),
            _text(order.handler),
            _NUMBER.pack(_ON_CPU if order.gpu_id is None else order.gpu_id),
            _text(order.envelope),
            struct.pack("!?", order.limit_max_image_pixels),
        )
    )


def encode_predict(requests: Iterable[WorkerRequest]) -> bytes:
    """Write a batch."""
    return b"".join((_PREDICT, *(_encode_request(request) for request in requests), _END))


def read_message(read: Read, *, longest: int) -> WorkerMessage:
    """Read one message.

    Raises ServingError for what the Java side would end the worker for: a text or body of more
    than `longest` bytes, or no message at all; and whatever `read` raises.
    """
    reader = _Reader(read, longest)
    return WorkerMessage(
        code=reader.number(),
        text=reader.text(),
        predictions=tuple(reader.predictions()),
    )


class _Reader:
    """The fields of a message, one after the other."""

    def __init__(self, read: Read, longest: int) -> None:
        self._read, self._longest = read, longest

    def number(self) -> int:
        """Read a number."""
        (value,) = _NUMBER.unpack(self._read(_NUMBER.size))
        return int(value)

    def text(self) -> str:
        """Read a text."""
        try:
            return self._blob(self.number()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise _garbled("bytes that are not UTF-8") from error

    def predictions(self) -> Iterator[Prediction]:
        """Read the list of predictions to its end."""
        while (length := self.number()) != -1:
            request_id = self._blob(length).decode("utf-8", errors="replace")
            content_type, status, phrase = self.text(), self.number(), self.text()
            headers = {} if not content_type else {"content-type": content_type}
            headers |= {self.text(): self.text() for _ in range(self._count())}
            yield Prediction(
                request_id=request_id,
                status=status,
                phrase=phrase,
                headers=headers,
                body=self._body(),
            )

    def _count(self) -> int:
        count = self.number()
        if not 0 <= count <= self._longest:
            raise _garbled(f"{count} headers")
        return count

    def _body(self) -> bytes:
        length = self.number()
        if length > self._longest:
            raise ServingError(
                f"the worker sent a body of {length} bytes where TorchServe takes {self._longest} "
                "and ends the worker; answer with less, or raise max_response_size"
            )
        return self._blob(length)

    def _blob(self, length: int) -> bytes:
        if not 0 <= length <= self._longest:
            raise _garbled(f"a length of {length}")
        return self._read(length)


def _garbled(what: str) -> ServingError:
    return ServingError(
        f"the worker sent what is no message of TorchServe's ({what}), which ends it on a server; "
        "does the handler write to context.cl_socket, or set a phrase that is not ASCII?"
    )


def _encode_request(request: WorkerRequest) -> bytes:
    pieces = [_text(request.request_id)]
    for name, value in request.headers.items():
        pieces += [_text(name), _text(value)]
    pieces.append(_END)
    for part in request.parts:
        pieces += [_text(part.name), _text(part.content_type), _blob(part.value)]
    pieces.append(_END)
    return b"".join(pieces)


def _text(value: str) -> bytes:
    return _blob(value.encode("utf-8"))


def _blob(value: bytes) -> bytes:
    return _NUMBER.pack(len(value)) + value
