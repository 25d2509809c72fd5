"""Everything that makemar raises on purpose.

MakeMarError
├── ArchiveError                  a spec, plan or archive that cannot be used
│   ├── ArchiveExistsError        the target is there already
│   ├── ManifestError             MAR-INF/MANIFEST.json is missing or wrong
│   └── IntegrityError            the bytes are not what was written
├── ConfigError                   a properties file, YAML file or profile
├── ServingError                  a server, worker or client call
│   ├── UnreachableError          nobody answered
│   └── ResponseError             the server answered with an error
│       ├── AuthorizationError    the token is missing, wrong or expired
│       ├── ModelNotFoundError    no such model or version
│       ├── ModelConflictError    that name and version is registered already
│       └── WorkersFailedError    the model's workers did not come up
└── PlanError                     a cost model, profile or search

Each message is one line: the thing, what is wrong, what to do next. The facts behind it are
attributes, so that a program need not read the sentence.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ArchiveError",
    "ArchiveExistsError",
    "AuthorizationError",
    "ConfigError",
    "Finding",
    "IntegrityError",
    "MakeMarError",
    "ManifestError",
    "ModelConflictError",
    "ModelNotFoundError",
    "PlanError",
    "ResponseError",
    "ServingError",
    "Severity",
    "UnreachableError",
    "WorkersFailedError",
]


class Severity(enum.Enum):
    """How bad a finding is: an error stops the work, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong, found before it could do harm.

    `code` is stable and can be silenced; `path` and `line` say where; `fix` says what to do next.
    """

    code: str
    severity: Severity
    message: str
    fix: str = ""
    path: Path | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = "" if self.path is None else f"{self.path}:"
        if self.line is not None:
            place += f"{self.line}:"
        fix = f"; {self.fix}" if self.fix else ""
        return (
            f"{place}{' ' if place else ''}{self.severity.value}[{self.code}]: {self.message}{fix}"
        )


class MakeMarError(Exception):
    """Base of everything that makemar raises on purpose."""


class ArchiveError(MakeMarError, ValueError):
    """A spec, a plan or an archive cannot be used.

    `path` is the file concerned; `findings` is what stopped a plan, if a plan was stopped.
    """

    def __init__(
        self, message: str, *, path: Path | None = None, findings: tuple[Finding, ...] = ()
    ) -> None:
        super().__init__(message)
        self.path = path
        self.findings = findings


class ArchiveExistsError(ArchiveError):
    """The target exists and was not to be replaced."""


class ManifestError(ArchiveError):
    """MAR-INF/MANIFEST.json is missing, unreadable or incomplete."""


class IntegrityError(ArchiveError):
    """An archive's bytes are not the ones that were written."""


class ConfigError(MakeMarError, ValueError):
    """A configuration cannot be used; `path`, `line` and `key` say where."""

    def __init__(
        self,
        message: str,
        *,
        path: Path | None = None,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.line = line
        self.key = key


class ServingError(MakeMarError):
    """A server or worker did not do what was asked.

    `traceback` has the lines of the worker's own exception, where one was to blame.
    """

    traceback: tuple[str, ...] = ()


class UnreachableError(ServingError):
    """Nobody answered at `url`, or not in time."""

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(message)
        self.url = url


class ResponseError(ServingError):
    """The server at `url` answered with `status`.

    `kind` is TorchServe's own error type (`ModelNotFoundException`), empty if it named none.
    """

    def __init__(self, message: str, *, status: int, url: str, kind: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.url = url
        self.kind = kind


class AuthorizationError(ResponseError):
    """The token is missing, wrong or expired (TorchServe answers 400, not 401)."""


class ModelNotFoundError(ResponseError):
    """No model of that name, or no such version of it, is registered."""


class ModelConflictError(ResponseError):
    """A model of that name and version is registered already."""


class WorkersFailedError(ResponseError):
    """The workers of a model did not become READY.

    The message quotes the worker's own exception and its place, if they are known; `traceback` has
    the lines of its traceback, from the first that is not the server's own code.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        url: str,
        kind: str = "",
        traceback: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, status=status, url=url, kind=kind)
        self.traceback = traceback


class PlanError(MakeMarError, ValueError):
    """A cost model, a profile or a search was given something it cannot work with."""
