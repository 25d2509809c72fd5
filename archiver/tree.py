"""A directory's files, as they go into an archive."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from makemar.errors import Finding, Severity

__all__ = ["walk_tree"]

_CLUTTER_FOLDERS = frozenset({"CVS", "__MACOSX", "__pycache__"})
_CLUTTER_ENDINGS = (".pyc", ".pyo")
# Hidden things that nobody misses in an archive; other hidden files are worth a word.
_QUIET_NAMES = (
    ".DS_Store .bzr .cache .coverage .git .gitattributes .gitignore .gitkeep .gitmodules "
    ".hg .hgignore .hypothesis .idea .ipynb_checkpoints .mypy_cache .nox .pytest_cache "
    ".ruff_cache .svn .tox .venv .vscode"
)
_QUIET = frozenset(_QUIET_NAMES.split())


def walk_tree(folder: Path) -> Iterator[tuple[str, Path] | Finding]:
    """Yield a name relative to the folder, with `/`, and the path of each file, in sorted order.

    `__pycache__`, compiled files, version control and hidden files stay out; for the hidden ones
    that somebody might miss a warning is yielded instead. Links are followed; one that leads
    nowhere or back above itself is an error finding, as is what is no regular file. Raises OSError
    if a folder cannot be listed.
    """
    yield from _walk(folder, "", (folder.resolve(),))


def _walk(
    folder: Path, prefix: str, above: tuple[Path, ...]
) -> Iterator[tuple[str, Path] | Finding]:
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        name, path = prefix + entry.name, folder / entry.name
        if entry.name in _CLUTTER_FOLDERS or entry.name.endswith(_CLUTTER_ENDINGS):
            continue
        if entry.name.startswith("."):
            if entry.name not in _QUIET:
                yield _left_out(path)
        elif entry.is_dir():
            real = path.resolve()
            if real in above:
                yield _unusable(path, "the link leads back to a folder that holds it")
            else:
                yield from _walk(path, name + "/", (*above, real))
        elif entry.is_file():
            yield name, path
        else:
            yield _unusable(path, "a broken link or no regular file")


def _left_out(path: Path) -> Finding:
    return Finding(
        code="hidden-file",
        severity=Severity.WARNING,
        message="hidden, so not packed",
        fix="name the file itself, with include (--include) or extra (--extra-files), to pack it",
        path=path,
    )


def _unusable(path: Path, message: str) -> Finding:
    return Finding(
        code="not-a-file",
        severity=Severity.ERROR,
        message=message,
        fix="remove it, or put a file there",
        path=path,
    )
