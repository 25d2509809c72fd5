"""What each opcode of the pickle protocols 0 to 5 does to a pickle machine."""

from __future__ import annotations

import codecs
import pickletools
import warnings
from collections.abc import Callable, Mapping

from makemar.archiver.pickle_machine import (
    LONGEST_NAME,
    BadPickle,
    PickleImport,
    PickleMachine,
    may_be_pickle,
)

__all__ = ["STEPS", "UNKNOWN", "Step"]

UNKNOWN = PickleImport(module="?", name="?")
_NEWEST_PROTOCOL = 5

Step = Callable[[PickleMachine], None]


def _text(length: Callable[[PickleMachine], int]) -> Step:
    def step(machine: PickleMachine) -> None:
        data = machine.constant(length(machine), text=True)
        machine.push(None if data is None else _decode(data))

    return step


def _decode(data: bytes) -> str | None:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _old_text(length: Callable[[PickleMachine], int]) -> Step:
    """Make the step of a text that Python 2 wrote: bytes, in whatever encoding."""

    def step(machine: PickleMachine) -> None:
        data = machine.constant(length(machine), text=False)
        machine.push(None if data is None else data.decode("latin-1"))

    return step


def _text_line(decode: Callable[[bytes], str]) -> Step:
    def step(machine: PickleMachine) -> None:
        try:
            text = decode(machine.take_line())
        except ValueError as error:
            raise BadPickle("a text is not written as texts are") from error
        data = text.encode("latin-1", "replace")
        if may_be_pickle(data):
            machine.keep_inner(data)
        machine.push(text if len(text) <= LONGEST_NAME else None)

    return step


def _unquote(line: bytes) -> str:
    """Decode a protocol 0 string: quoted, with Python's escapes."""
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in b"'\"":
        raise BadPickle("a text is not quoted")
    text = line[1:-1]
    if b"\\" in text:
        with warnings.catch_warnings():
            # Of an escape that there is not; the unpickler takes it as it stands.
            warnings.simplefilter("ignore")
            text = codecs.escape_decode(text)[0]
    return text.decode("latin-1")


def _bytes(length: Callable[[PickleMachine], int]) -> Step:
    def step(machine: PickleMachine) -> None:
        machine.constant(length(machine), text=False)
        machine.push()

    return step


def _length(size: int, *, signed: bool = False) -> Callable[[PickleMachine], int]:
    def read(machine: PickleMachine) -> int:
        length = machine.take_number(size, signed=signed)
        if length < 0:
            raise BadPickle("it holds a length that cannot be")
        return length

    return read


def _number_line(machine: PickleMachine) -> int:
    line = machine.take_line()
    try:
        number = int(line) if len(line) < 32 else -1
    except ValueError:
        number = -1
    if number < 0:
        raise BadPickle("it numbers its memo with what is no number")
    return number


def _read_global(machine: PickleMachine) -> None:
    try:
        module, name = (machine.take_line().decode("utf-8") for _ in range(2))
    except UnicodeDecodeError as error:
        raise BadPickle("a name to import is not UTF-8") from error
    machine.found(module, name)


def _global(machine: PickleMachine) -> None:
    _read_global(machine)
    machine.push()


def _inst(machine: PickleMachine) -> None:
    _read_global(machine)
    machine.pop_mark()
    machine.push()


def _stack_global(machine: PickleMachine) -> None:
    name = machine.top()
    machine.pop(1)
    module = machine.top()
    machine.pop(1)
    if isinstance(module, str) and isinstance(name, str):
        machine.found(module, name)
    else:
        machine.last_import = UNKNOWN
        machine.imports.add(UNKNOWN)
    machine.push()


def _extension(size: int) -> Step:
    def step(machine: PickleMachine) -> None:
        # A number that the loading process has, or has not, registered for an import.
        machine.take(size)
        machine.imports.add(UNKNOWN)
        machine.push()

    return step


def _proto(machine: PickleMachine) -> None:
    machine.protocol = machine.take_number(1)
    if machine.protocol > _NEWEST_PROTOCOL:
        raise BadPickle(f"there is no pickle protocol {machine.protocol}")


_PARTICULAR: Mapping[str, Step] = {
    "SHORT_BINUNICODE": _text(_length(1)),
    "BINUNICODE": _text(_length(4)),
    "BINUNICODE8": _text(_length(8)),
    "SHORT_BINSTRING": _old_text(_length(1)),
    "BINSTRING": _old_text(_length(4, signed=True)),
    "UNICODE": _text_line(lambda line: line.decode("raw-unicode-escape")),
    "STRING": _text_line(_unquote),
    "SHORT_BINBYTES": _bytes(_length(1)),
    "BINBYTES": _bytes(_length(4)),
    "BINBYTES8": _bytes(_length(8)),
    "BYTEARRAY8": _bytes(_length(8)),
    "MARK": PickleMachine.mark,
    "POP": PickleMachine.pop_one,
    "POP_MARK": PickleMachine.pop_mark,
    "DUP": lambda machine: machine.push(machine.top()),
    "MEMOIZE": PickleMachine.memoize,
    "PUT": lambda machine: machine.put(_number_line(machine)),
    "BINPUT": lambda machine: machine.put(machine.take_number(1)),
    "LONG_BINPUT": lambda machine: machine.put(machine.take_number(4)),
    "GET": lambda machine: machine.get(_number_line(machine)),
    "BINGET": lambda machine: machine.get(machine.take_number(1)),
    "LONG_BINGET": lambda machine: machine.get(machine.take_number(4)),
    "GLOBAL": _global,
    "INST": _inst,
    "STACK_GLOBAL": _stack_global,
    "EXT1": _extension(1),
    "EXT2": _extension(2),
    "EXT4": _extension(4),
    "PROTO": _proto,
}


def _argument(info: pickletools.OpcodeInfo) -> Step | None:
    """Return what passes over an opcode's argument, by the standard library's own table."""
    if info.arg is None:
        return None
    size = info.arg.n
    if size == pickletools.UP_TO_NEWLINE:
        return lambda machine: _ignore(machine.take_line())
    counted = {
        pickletools.TAKEN_FROM_ARGUMENT1: _length(1),
        pickletools.TAKEN_FROM_ARGUMENT4: _length(4, signed=True),
    }
    if size in counted:
        return lambda machine: machine.skip(counted[size](machine))
    return lambda machine: _ignore(machine.take(size))


def _ignore(_: object) -> None:
    """Drop a value."""


def _plain(info: pickletools.OpcodeInfo) -> Step:
    """Return the step of an opcode that only moves values, by the standard library's own table."""
    argument = _argument(info)
    before, pushes = info.stack_before, len(info.stack_after)
    has_mark = pickletools.markobject in before
    pops = before.index(pickletools.markobject) if has_mark else len(before)

    if argument is None and not has_mark and pops == 0 and pushes == 1:
        return PickleMachine.push

    def step(machine: PickleMachine) -> None:
        if argument is not None:
            argument(machine)
        if has_mark:
            machine.pop_mark()
        if pops:
            machine.pop(pops)
        for _ in range(pushes):
            machine.push()

    return step


STEPS: Mapping[bytes, Step] = {
    info.code.encode("latin-1"): _PARTICULAR.get(info.name) or _plain(info)
    for info in pickletools.opcodes
}
