"""Python files read as syntax trees: parsed, never run."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from makemar.errors import Finding, Severity

__all__ = ["Parser", "parse_python"]

# The one that reads the file: it knows no syntax newer than its own.
_HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
# Parses a file, or returns the finding that says why it cannot be.
Parser = Callable[[Path], "ast.Module | Finding"]


def parse_python(path: Path) -> ast.Module | Finding:
    """Parse a file, or return the finding that says in which line it is broken.

    Raises OSError if the file cannot be read.
    """
    source = path.read_bytes()
    try:
        with warnings.catch_warnings():
            # A doubtful escape is the author's business; it breaks no load.
            warnings.simplefilter("ignore")
            return ast.parse(source, filename=str(path))
    except SyntaxError as error:
        return _broken(path, error.msg, error.lineno)
    except (ValueError, RecursionError, MemoryError) as error:
        return _broken(path, str(error) or type(error).__name__, None)


def _broken(path: Path, message: str, line: int | None) -> Finding:
    return Finding(
        code="syntax-error",
        severity=Severity.ERROR,
        message=f"not valid Python {_HERE}: {message}",
        fix="correct that line; if it is newer than the Python that packs, pack with a newer one",
        path=path,
        line=line or None,
    )
