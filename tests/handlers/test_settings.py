"""The types of a user's own settings: every way to write them; what is told of a wrong value."""

# ruff: noqa: UP007, UP045  (every way: the old ones too)

import contextlib
import dataclasses
import re
from pathlib import Path
from typing import Literal, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.handlers import BaseHandler, HandlerSettings, LoadError
from makemar.handlers.setting_types import as_type
from makemar.handlers.settings import read_settings


def settings_with(kind, default=None):
    """A settings type with one field of its own, called `own`."""
    return dataclasses.make_dataclass(
        "Own", [("own", kind, default)], bases=(HandlerSettings,), frozen=True
    )


# What may be declared, a value that YAML gives for it, and what becomes of it.
DECLARED = [
    (int, 3, 3),
    (float, 3, 3.0),
    (bool, True, True),
    (str, "a", "a"),
    (Optional[int], 3, 3),
    (Optional[int], None, None),
    (Union[int, str], "a", "a"),
    (Union[int, str], 3, 3),
    (Union[int, float], 3, 3),
    (tuple[float, ...], [1, 2.5], (1.0, 2.5)),
    (list[str], ["a"], ("a",)),
    (Optional[tuple[int, ...]], [1], (1,)),
    (dict, {"a": 1}, {"a": 1}),
    (int | None, 3, 3),
    (int | None, None, None),
    (str | int, 3, 3),
    (tuple[int, ...] | None, [1], (1,)),
    ("int | None", 3, 3),
]


@pytest.mark.parametrize(("kind", "value", "kept"), DECLARED, ids=str)
def test_a_value_of_the_declared_type_is_taken(kind, value, kept):
    own = read_settings(settings_with(kind), {"handler": {"own": value}}).own
    assert own == kept
    assert type(own) is type(kept)


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (int, "a", "'a', not int"),
        (int, True, "True, not int"),
        (int, None, "None, not int"),
        (Optional[int], "a", "'a', not int"),
        (Union[int, str], 1.5, "1.5, not int or str"),
        (tuple[int, ...], 3, "3, not a list"),
        (tuple[int, ...], ["a"], "'a', not int"),
        (dict, [1], "[1], not a mapping"),
        (float, 10**400, f"1{'0' * 99}, not float"),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_told_what_it_is_not(kind, value, told):
    with pytest.raises(LoadError, match=re.escape(f"handler.own is {told}")):
        read_settings(settings_with(kind), {"handler": {"own": value}})


@pytest.mark.parametrize(
    "kind", [Path, Literal["a", "b"], dict[str, int], tuple[int, str], Optional[Path], "Unknown"]
)
def test_a_type_that_yaml_can_never_give_is_told_when_the_handlers_class_is_made(kind):
    with pytest.raises(LoadError, match=r"Own\.own is declared as|Own: the type of a setting"):
        type("Handler", (BaseHandler,), {"settings_type": settings_with(kind)})


@pytest.mark.parametrize("key", ["max_length", "max_new_tokens", "padding", "model_name"])
def test_a_handler_of_torchserves_kind_keeps_keys_of_its_own(key, caplog):
    assert read_settings(HandlerSettings, {"handler": {key: 8}}, own_keys=True) == HandlerSettings()
    assert caplog.messages == [f"handler.{key} is no setting of makemar; it is left to the handler"]


@pytest.mark.parametrize("key", ["thread", "warm_up", "max_token", "max_forward_bach"])
def test_even_there_a_slip_is_told(key):
    with pytest.raises(LoadError, match=f"handler.{key} is not a setting; did you mean "):
        read_settings(HandlerSettings, {"handler": {key: 8}}, own_keys=True)


@given(st.one_of(st.integers(), st.booleans(), st.floats(allow_nan=False), st.text(), st.none()))
def test_whatever_comes_is_taken_unchanged_or_refused(value):
    for kind in (int, float, bool, str, Optional[int], Union[bool, str]):
        with contextlib.suppress(TypeError):
            assert as_type(value, kind) == (float(value) if kind is float else value)
