"""One request: a row of the list that TorchServe hands to a handler, with its headers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from makemar.handlers.errors import BadRequestError
from makemar.handlers.quoting import list_names

__all__ = ["Request", "Samples"]


class Samples(list[Any]):
    """Several samples carried by one request; `decode` returns it instead of a single sample."""


class Request:
    """One client's call: its fields, its headers (names in any case) and its id.

    TorchServe 0.12 gives a row per request: `body` (or `data`) for a plain body, one key per field
    for a form. JSON bodies arrive parsed, text as `str`, everything else as `bytearray`.
    """

    def __init__(
        self,
        row: Mapping[str, object],
        *,
        index: int = 0,
        request_id: str | None = None,
        headers: Mapping[str, object] | None = None,
    ) -> None:
        self.row = row
        self.index = index
        self.id = request_id
        # Set once the request has been opened: its values, and the way to answer them.
        self.envelope: object = None
        # TorchServe mixes real headers (strings) with one dict per form field.
        self._given = headers or {}
        self._headers: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        # Payloads and headers may hold secrets; neither belongs in a log.
        return f"Request(index={self.index}, id={self.id!r}, fields={sorted(self.row)})"

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the request, their names in lower case."""
        if self._headers is None:
            self._headers = {k.lower(): v for k, v in self._given.items() if isinstance(v, str)}
        return self._headers

    def renumbered(self, index: int) -> Request:
        """Return the same request at another place in a batch."""
        twin = copy.copy(self)
        twin.index = index
        return twin

    @property
    def explain(self) -> bool:
        """Tell whether the client asked for an explanation; TorchServe sets this header itself."""
        return self._given.get("explain") == "True"

    def content_type(self, field: str = "body") -> str:
        """Return the media type of a field in lower case without parameters, or ''."""
        part = self._given.get(field)
        given = part.get("content-type") if isinstance(part, Mapping) else None
        text = given if isinstance(given, str) else ""
        if not text and field in ("body", "data"):
            text = self.headers.get("content-type", "")
        return text.partition(";")[0].strip().lower()

    def payload(self) -> object:
        """Return what the client sent: the body, the form field `data`, or the only field.

        Raises `BadRequestError` when nothing arrived or when several fields leave it open.
        """
        name = self.main_field()
        if name is None:
            raise BadRequestError(
                f"the form has the fields {list_names(self.row)}; "
                "name the input 'data' or send it as the body"
            )
        return self._value(name)

    def main_field(self) -> str | None:
        """Return the name of the field that is the payload, or None where several might be.

        Raises `BadRequestError` when nothing arrived, or when it was taken for a form and lost.
        """
        for name in ("body", "data"):
            if name in self.row:
                return name
        if not self.row or self._is_broken_form():
            raise BadRequestError(self._why_no_payload())
        return next(iter(self.row)) if len(self.row) == 1 else None

    def size(self) -> int:
        """Return how many bytes the body had, as far as it can still be told.

        TorchServe 0.12 hands JSON on parsed: then the client's own Content-Length has to do.
        """
        told = self.headers.get("content-length", "")
        if told.isascii() and told.isdigit() and len(told) < 20:
            return int(told)
        values = self.row.values()
        return sum(len(v) for v in values if isinstance(v, (bytes, bytearray, str)))

    def field(self, name: str) -> object:
        """Return one named form field.

        Raises `BadRequestError` that names the fields that did arrive.
        """
        if name not in self.row:
            there = list_names(self.row)
            raise BadRequestError(f"field {name!r} is missing (fields sent: {there})")
        return self._value(name)

    def _value(self, name: str) -> object:
        value = self.row[name]
        return bytes(value) if isinstance(value, (bytearray, memoryview)) else value

    def _is_form(self) -> bool:
        return self.content_type() == "application/x-www-form-urlencoded"

    def _is_broken_form(self) -> bool:
        """Tell JSON that was taken for a form: its text up to a `=` became the field's name."""
        return self._is_form() and next(iter(self.row)).lstrip()[:1] in ("{", "[", '"')

    def _why_no_payload(self) -> str:
        if self._is_form():
            return (
                "the body was sent as a form and was lost on the way; curl -d does this: "
                "add -H 'Content-Type: application/json'"
            )
        return "the request has no body"
