"""What messages and README tell people to type is there to be typed."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from makemar.cli.verbs import VERBS

README = Path(__file__).parents[2] / "README.md"
COMMAND = re.compile(r"make-mar((?: [a-z][a-z-]*)+)")
ROOMS = ("", ".cli", ".archiver", ".configs", ".handlers", ".planning", ".serving")


def texts() -> Iterator[tuple[str, str]]:
    """Yield every text in the package's code, its profiles and the README, with its place."""
    for room in ROOMS:
        spec = importlib.util.find_spec(f"makemar{room}")
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent
        for path in sorted(folder.rglob("*.properties")):
            yield str(path), path.read_text()
        for path in sorted(folder.glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path}:{node.lineno}", node.value
    yield str(README), README.read_text(encoding="utf-8")


def commands() -> list[tuple[str, list[str]]]:
    """Collect the commands that are named: a place, and the words after `make-mar`."""
    return [(place, found.split()) for place, text in texts() for found in COMMAND.findall(text)]


def unknown_word(words: list[str]) -> str:
    """Return the first word that should be a verb and is none, or nothing."""
    verb, *rest = words
    if verb not in VERBS:
        return verb
    inner = getattr(VERBS[verb].load(verb), "commands", None)
    return rest[0] if inner and rest and rest[0] not in inner else ""


def test_every_command_that_is_named_anywhere_exists() -> None:
    found = commands()
    assert {words[0] for _, words in found} >= {"serve", "stop", "models", "pack"}
    assert [(place, words) for place, words in found if unknown_word(words)] == []


@pytest.mark.parametrize("words", ["rollouts x", "models lst", "frobnicate"])
def test_a_command_that_does_not_exist_would_be_noticed(words: str) -> None:
    assert unknown_word(words.split())
