"""What opcodes do where joblib reads: after the description of an array comes the array, raw.

joblib's unpickler takes the array's bytes out of the middle of the pickle. To pass over them its
size has to be known, so here a few more values are followed than texts.
"""

from __future__ import annotations

import math
import pickletools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from makemar.archiver.pickle_machine import BadPickle, PickleImport, PickleMachine
from makemar.archiver.pickle_opcodes import STEPS, Step

__all__ = ["WRAPPER", "make_joblib_steps"]

WRAPPER = PickleImport(module="joblib.numpy_pickle", name="NumpyArrayWrapper")
_DTYPE = PickleImport(module="numpy", name="dtype")
# Describing an array takes six keys and short tuples; longer ones describe something else.
_SHORT = 64
# A flag in the state of numpy.dtype.
_HAS_OBJECTS = 1
_CODE = re.compile(r"([a-zA-Z?])(\d*)")


@dataclass(kw_only=True)
class _Array:
    """A wrapper that joblib will fill; nothing of it is kept."""


@dataclass(kw_only=True)
class _Type:
    """An array's type: `f8`, `U5`, and of a structured one the bytes of an item."""

    code: str
    size: int | None = None
    flags: int = 0

    def measure(self) -> int | None:
        """Return the bytes of an item; None if items are Python objects."""
        found = _CODE.fullmatch(self.code)
        if found is None or (found[1] != "V" and not found[2] and found[1] != "O"):
            raise BadPickle(f"it holds an array of {self.code!r}, whose size is not known")
        if found[1] == "O" or (found[1] == "V" and self.flags & _HAS_OBJECTS):
            return None
        if found[1] == "V" and self.size is not None:
            return self.size
        return int(found[2]) * (4 if found[1] == "U" else 1)


def make_joblib_steps(walk_inner: Callable[[PickleMachine], None]) -> Mapping[bytes, Step]:
    """Return the steps; `walk_inner` follows a whole pickle that stands where an array would."""

    def build(machine: PickleMachine) -> None:
        state, target = _pop(machine), machine.top()
        if isinstance(target, _Type) and isinstance(state, tuple) and len(state) > 7:
            size, flags = state[5], state[7]
            target.size = size if isinstance(size, int) else None
            target.flags = flags if isinstance(flags, int) else 1
        elif isinstance(target, _Array):
            machine.pop(1)
            machine.push()
            _pass_array(machine, state, walk_inner)

    return {**STEPS, **_STEPS, b"b": build}


def _pass_array(
    machine: PickleMachine, state: object, walk_inner: Callable[[PickleMachine], None]
) -> None:
    if not isinstance(state, dict):
        raise BadPickle("it holds an array of joblib's that is not described")
    kind, shape = state.get("dtype"), _numbers(state.get("shape"))
    if not isinstance(kind, _Type) or shape is None:
        raise BadPickle("it holds an array of joblib's without type or shape")
    size = kind.measure()
    if size is None:
        walk_inner(machine)
        return
    if state.get("numpy_array_alignment_bytes") is not None:
        machine.skip(machine.take_number(1))
    machine.skip(math.prod(shape) * size)


def _numbers(shape: object) -> tuple[int, ...] | None:
    if not isinstance(shape, tuple):
        return None
    numbers = tuple(n for n in shape if isinstance(n, int) and n >= 0)
    return numbers if len(numbers) == len(shape) else None


def _pop(machine: PickleMachine) -> object:
    value = machine.top()
    machine.pop(1)
    return value


def _constant(value: object) -> Step:
    return lambda machine: machine.push(value)


def _number(size: int, *, signed: bool = False) -> Step:
    return lambda machine: machine.push(machine.take_number(size, signed=signed))


def _long(machine: PickleMachine) -> None:
    size = machine.take_number(1)
    machine.push(machine.take_number(size, signed=True))


def _tuple(count: int) -> Step:
    def step(machine: PickleMachine) -> None:
        values = [_pop(machine) for _ in range(count)]
        machine.push(tuple(reversed(values)))

    return step


def _marked_tuple(machine: PickleMachine) -> None:
    values = machine.take_mark(_SHORT)
    machine.push(None if values is None else tuple(values))


def _empty_dict(machine: PickleMachine) -> None:
    machine.push({})


def _set_items(machine: PickleMachine) -> None:
    values = machine.take_mark(_SHORT)
    target = machine.top()
    if values is not None and len(values) % 2 == 0 and isinstance(target, dict):
        _set(target, values)


def _set_item(machine: PickleMachine) -> None:
    value, key = _pop(machine), _pop(machine)
    target = machine.top()
    if isinstance(target, dict):
        _set(target, [key, value])


def _set(target: dict[str, object], values: list[object]) -> None:
    for key, value in zip(values[::2], values[1::2], strict=True):
        if isinstance(key, str) and len(target) < _SHORT:
            target[key] = value


def _named(step: Step) -> Step:
    """Make the step of an import leave what it imports on the stack."""

    def named(machine: PickleMachine) -> None:
        step(machine)
        machine.pop(1)
        machine.push(machine.last_import)

    return named


def _make(machine: PickleMachine) -> None:
    arguments, called = _pop(machine), _pop(machine)
    made: object = None
    if called == WRAPPER:
        made = _Array()
    elif called == _DTYPE and isinstance(arguments, tuple) and arguments:
        made = _Type(code=str(arguments[0]))
    machine.push(made)


_BY_NAME: Mapping[str, Step] = {
    "BININT": _number(4, signed=True),
    "BININT1": _number(1),
    "BININT2": _number(2),
    "LONG1": _long,
    "NEWTRUE": _constant(True),
    "NEWFALSE": _constant(False),
    "EMPTY_TUPLE": _constant(()),
    "TUPLE": _marked_tuple,
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "EMPTY_DICT": _empty_dict,
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "NEWOBJ": _make,
    "REDUCE": _make,
}
_CODES = {info.name: info.code.encode("latin-1") for info in pickletools.opcodes}
_STEPS: Mapping[bytes, Step] = {
    **{_CODES[name]: step for name, step in _BY_NAME.items()},
    **{_CODES[name]: _named(STEPS[_CODES[name]]) for name in ("GLOBAL", "STACK_GLOBAL")},
}
