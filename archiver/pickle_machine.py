"""The unpickler's stack, marks and memo, with nothing on them that could do anything."""

from __future__ import annotations

from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from dataclasses import dataclass
from typing import BinaryIO

__all__ = ["LONGEST_NAME", "BadPickle", "PickleImport", "PickleMachine", "may_be_pickle"]

# Bytes; no module's name is longer, and a text that is cannot name one that is allowed.
LONGEST_NAME = 512
_MAX_TEXTS = 1_000_000
_MAX_LINE = 64 << 20
_LONGEST = 1 << 40
_MAX_INNER = 64 << 20
_MAX_PICKLES_INSIDE = 10_000


@dataclass(frozen=True, kw_only=True, order=True)
class PickleImport:
    """A name that unpickling imports; both are "?" if only unpickling itself would tell."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class BadPickle(Exception):  # noqa: N818 - it never leaves the room
    """The unpickler would raise here."""


# What the stack holds of a value: its text, if it is one, else None. Other opcodes than the plain
# ones may keep more of it.
_Value = object


class PickleMachine:
    """Follows what opcodes do to the unpickler; of values it keeps only short texts.

    Memory grows with the stack's depth and with the number of texts in the memo, which is bounded;
    a text that found no room there counts as one that nobody knows.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.imports: set[PickleImport] = set()
        self.inner: list[bytes] = []
        self._inner_size = 0
        self.protocol = 0
        self.stack: list[_Value] = []
        self._marks: list[int] = []
        self._memo: dict[int, object] = {}
        self.last_import: PickleImport | None = None
        self._memoized = 0
        self._has_put = False

    # The stream

    def take(self, size: int) -> bytes:
        """Return exactly so many bytes."""
        data = self.stream.read(size)
        if len(data) < size:
            raise BadPickle("it ends too early")
        return data

    def take_number(self, size: int, *, signed: bool = False) -> int:
        """Return a number of so many bytes."""
        return int.from_bytes(self.take(size), "little", signed=signed)

    def take_line(self) -> bytes:
        """Return a line without its end."""
        line = self.stream.readline(_MAX_LINE)
        if not line.endswith(b"\n"):
            raise BadPickle("a line is too long" if len(line) == _MAX_LINE else "it ends too early")
        return line[:-1]

    def skip(self, size: int) -> None:
        """Pass over so many bytes, which have to be there."""
        if size > _LONGEST:
            raise BadPickle("it holds a length that cannot be")
        if size > 0:
            self.stream.seek(size - 1, 1)
            self.take(1)

    # The stack

    def push(self, value: _Value = None) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self, count: int) -> None:
        """Take values from the stack, down to the last mark at most."""
        if len(self.stack) - count < (self._marks[-1] if self._marks else 0):
            raise BadPickle("it takes more from the stack than there is")
        if count:
            del self.stack[-count:]

    def pop_mark(self) -> None:
        """Take the last mark, and all above it."""
        if not self._marks:
            raise BadPickle("it takes more from the stack than there is")
        del self.stack[self._marks.pop() :]

    def take_mark(self, most: int) -> list[object] | None:
        """Take the last mark and all above it, which is returned if it is no more than `most`."""
        start = self._marks[-1] if self._marks else 0
        values = self.stack[start:] if len(self.stack) - start <= most else None
        self.pop_mark()
        return values

    def mark(self) -> None:
        """Mark where the stack ends now."""
        self._marks.append(len(self.stack))

    def pop_one(self) -> None:
        """Take the last value, or a mark that is above it."""
        if self._marks and self._marks[-1] == len(self.stack):
            self._marks.pop()
        else:
            self.pop(1)

    def top(self) -> _Value:
        """Return the last value."""
        if len(self.stack) <= (self._marks[-1] if self._marks else 0):
            raise BadPickle("it takes more from the stack than there is")
        return self.stack[-1]

    # The memo

    def memoize(self) -> None:
        """Keep the last value under the next number."""
        self._store(self._memoized)
        self._memoized += 1
        self._refuse_mixture()

    def put(self, key: int) -> None:
        """Keep the last value under a number."""
        self._has_put = True
        self._store(key)
        self._refuse_mixture()

    def get(self, key: int) -> None:
        """Put a kept value on the stack."""
        self.push(self._memo.get(key))

    def _store(self, key: int) -> None:
        value = self.top()
        if value is None or len(self._memo) >= _MAX_TEXTS:
            self._memo.pop(key, None)
        else:
            self._memo[key] = value

    def _refuse_mixture(self) -> None:
        if self._has_put and self._memoized:
            raise BadPickle("it numbers its memo in two ways, which no pickler does")

    # Imports and constants

    def found(self, module: str, name: str) -> None:
        """Take an import down, under its name of today as the unpickler looks it up."""
        if self.protocol < 3:
            if (module, name) in NAME_MAPPING:
                module, name = NAME_MAPPING[module, name]
            else:
                module = IMPORT_MAPPING.get(module, module)
        self.last_import = PickleImport(module=module, name=name)
        self.imports.add(self.last_import)

    def constant(self, size: int, *, text: bool) -> bytes | None:
        """Pass over bytes or a text; return it if it is no longer than a name can be.

        What looks like a pickle or a zip is kept for whoever walks it next.
        """
        start = self.take(min(size, LONGEST_NAME))
        rest = size - len(start)
        if not may_be_pickle(start, text=text):
            self.skip(rest)
            return None if rest else start
        if rest > _MAX_INNER:
            raise too_many_inside()
        data = start + self.take(rest)
        self.keep_inner(_without_utf8(data) if text else data)
        return None if rest else start

    def keep_inner(self, data: bytes) -> None:
        """Take down bytes that look like a pickle."""
        self._inner_size += len(data)
        if self._inner_size > _MAX_INNER or len(self.inner) == _MAX_PICKLES_INSIDE:
            raise too_many_inside()
        self.inner.append(data)


def may_be_pickle(start: bytes, *, text: bool = False) -> bool:
    """Tell by its start; pickles of protocol 2 hold bytes as texts, U+0080 and up in two bytes."""
    if text and start[:1] == b"\xc2":
        start = start[1:]
    return start[:4] == b"PK\x03\x04" or (
        len(start) > 2 and start[0] == 0x80 and 2 <= start[1] <= 5
    )


def too_many_inside() -> BadPickle:
    """Return the error for more pickles in a pickle than are walked."""
    return BadPickle(f"the pickles inside of it are over {_MAX_INNER >> 20} MiB, or too many")


def _without_utf8(data: bytes) -> bytes:
    """Return the bytes that a text of U+0000 to U+00FF stands for."""
    return data.decode("utf-8", "replace").encode("latin-1", "replace")
