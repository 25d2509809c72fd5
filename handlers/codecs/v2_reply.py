"""Open Inference Protocol v2, the reply: named outputs, in JSON or with binary data behind it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Union

import torch

from makemar.handlers.codecs.envelope import Envelope
from makemar.handlers.codecs.results import stack_named, stack_results
from makemar.handlers.codecs.v2_types import datatype_of, pack
from makemar.handlers.errors import BadRequestError, ReplyError
from makemar.handlers.quoting import list_names, quote
from makemar.handlers.reply import Reply, write_json
from makemar.handlers.request import Request

__all__ = ["V2Envelope"]

_DEFAULT_NAME = "output_0"
Column = Union[torch.Tensor, Sequence[bytes]]


class V2Envelope(Envelope):
    """Samples of a v2 request.

    Arrays of one shape become an output; a dict of arrays one output per key; text and bytes an
    output of BYTES; anything else BYTES with each result as JSON.
    """

    typed = True

    def __init__(self, values: Sequence[object], asked: Mapping[str, Any]) -> None:
        parameters = asked.get("parameters")
        super().__init__(
            values,
            several=True,
            parameters=parameters if isinstance(parameters, dict) else None,
        )
        self.id = asked.get("id")
        outputs = asked.get("outputs")
        self.wanted = _wanted(outputs) if isinstance(outputs, list) else {}

    def wrap(self, results: Sequence[object], request: Request, context: Any) -> object:  # noqa: ARG002
        """Return the reply as a JSON value, or as a `Reply` where binary data was asked for."""
        columns, parameters = _columns(results)
        chosen = self._chosen(columns)
        by_default = self.parameters.get("binary_data_output") is True
        binary: list[bytes] = []
        outputs = []
        for name, column in chosen.items():
            output = _output(name, column, len(results))
            in_binary = self.wanted.get(name)
            if by_default if in_binary is None else in_binary:
                binary.append(pack(column))
                output["parameters"] = {**parameters, "binary_data_size": len(binary[-1])}
            else:
                output["data"], content = _json_data(column)
                if parameters or content:
                    output["parameters"] = {**parameters, **content}
            outputs.append(output)
        head = {**_served(context), **self._echo(), "outputs": outputs}
        return _with_binary(head, binary) if binary else head

    def _echo(self) -> dict[str, object]:
        return {"id": self.id} if isinstance(self.id, str) else {}

    def _chosen(self, columns: Mapping[str, Column]) -> Mapping[str, Column]:
        """Return the outputs asked for; a lone unnamed one takes the name that was asked for."""
        if not self.wanted:
            return columns
        if list(columns) == [_DEFAULT_NAME] and len(self.wanted) == 1:
            return {next(iter(self.wanted)): columns[_DEFAULT_NAME]}
        for name in self.wanted:
            if name not in columns:
                raise BadRequestError(
                    f"there is no output {quote(name)}; this model gives {list_names(columns)}"
                )
        return {name: columns[name] for name in self.wanted}


def _wanted(outputs: Sequence[object]) -> dict[str, bool | None]:
    """Return the outputs that a request names, each with its wish for binary data."""
    wanted: dict[str, bool | None] = {}
    for output in outputs:
        name = output.get("name") if isinstance(output, dict) else None
        if not isinstance(output, dict) or not isinstance(name, str):
            raise BadRequestError("every entry of outputs needs a name")
        parameters = output.get("parameters")
        binary = parameters.get("binary_data") if isinstance(parameters, dict) else None
        wanted[name] = binary if isinstance(binary, bool) else None
    return wanted


def _served(context: Any) -> dict[str, object]:
    """Return the registered name and the version of the model that answered."""
    manifest = getattr(context, "manifest", None) or {}
    version = manifest.get("model", {}).get("modelVersion")
    served = {"model_name": str(getattr(context, "model_name", "") or "")}
    return {**served, "model_version": str(version)} if version else {**served}


def _columns(results: Sequence[object]) -> tuple[Mapping[str, Column], dict[str, object]]:
    """Return the results as outputs by name, and what must be said about their content."""
    if not results:
        return {_DEFAULT_NAME: []}, {}
    array = stack_results(results, several=True)
    named = {_DEFAULT_NAME: array} if array is not None else stack_named(results, several=True)
    if named is not None and all(datatype_of(a.dtype) for a in named.values()):
        return named, {}
    if all(isinstance(result, str) for result in results):
        return {_DEFAULT_NAME: [_utf8(str(result)) for result in results]}, {}
    if all(isinstance(result, (bytes, bytearray)) for result in results):
        return {_DEFAULT_NAME: [bytes(r) for r in results if isinstance(r, (bytes, bytearray))]}, {}
    texts = [write_json(result) for result in results]
    return {_DEFAULT_NAME: texts}, {"content_type": "application/json"}


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ReplyError("the reply's text holds a lone surrogate, not valid Unicode") from error


def _output(name: str, column: Column, count: int) -> dict[str, object]:
    if isinstance(column, torch.Tensor):
        return {"name": name, "shape": list(column.shape), "datatype": datatype_of(column.dtype)}
    return {"name": name, "shape": [count], "datatype": "BYTES"}


def _json_data(column: Column) -> tuple[list[Any], dict[str, object]]:
    """Return an output's elements for JSON; bytes that are no text become base64, and say so."""
    if isinstance(column, torch.Tensor):
        return list(column.reshape(-1).tolist()), {}
    try:
        return [value.decode("utf-8") for value in column], {}
    except UnicodeDecodeError:
        encoded = [base64.b64encode(value).decode("ascii") for value in column]
        return encoded, {"content_type": "base64"}


def _with_binary(head: Mapping[str, object], binary: Sequence[bytes]) -> Reply:
    text = write_json(head)
    return Reply(
        text + b"".join(binary),
        content_type="application/octet-stream",
        headers={"Inference-Header-Content-Length": str(len(text))},
    )
