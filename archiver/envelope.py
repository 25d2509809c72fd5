"""The server's envelope, which unpacks requests before the handler sees them.

TorchServe 0.12: it is one setting of the server, `service_envelope`, for all of its models; what a
manifest says of it is overwritten.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from makemar.archiver.handler import Handler
from makemar.archiver.spec import ArchiveSpec
from makemar.archiver.surface import read_surface
from makemar.errors import Finding, Severity

__all__ = ["ENVELOPES", "check_envelope"]

# Each with whether it gives every request of a batch its answer.
ENVELOPES = {"body": True, "json": True, "kserve": False, "kservev2": False}


def check_envelope(
    spec: ArchiveSpec,
    handler: Handler,
    code: tuple[Path, ast.Module] | None,
    settings: Mapping[str, object],
    config: Path | None,
) -> Iterator[Finding]:
    """Yield what does not fit the envelope that the spec says its server has; "" is none.

    `code` is the handler's file and syntax, if there is any, `settings` are those of the
    `model-config.yaml` in `config`.
    """
    name = spec.target_envelope
    size = settings.get("batchSize")
    if name not in ("", *ENVELOPES):
        yield _find(
            "envelope",
            f"there is no envelope {name!r}; with it no worker starts",
            f"write one of {', '.join(ENVELOPES)}",
            None,
            Severity.ERROR,
        )
    elif not ENVELOPES.get(name, True) and isinstance(size, int) and size > 1:
        yield _find(
            "envelope-batch",
            f"the envelope {name!r} reads the first request of a batch only: with batchSize {size} "
            "the whole batch gets 503",
            "set batchSize: 1, or serve without that envelope: makemar's handlers read both "
            "KServe protocols by themselves",
            config,
            Severity.ERROR,
        )
    bare = handler.built_in and handler.entry == "base_handler"
    bare = bare or (code is not None and _is_bare(code[1]))
    if bare and name not in ("body", "json"):
        yield _find(
            "bare-base-handler",
            "TorchServe's BaseHandler makes a tensor of the request as it came, and answers 503 "
            "to HTTP requests",
            "write preprocess, use makemar.tensor_handler, or serve with service_envelope=json "
            "and say so with target envelope (--target-envelope json)",
            None if code is None else code[0],
            Severity.WARNING,
        )


def _is_bare(tree: ast.Module) -> bool:
    """Tell whether a class takes requests as TorchServe's BaseHandler does."""
    surface = read_surface(tree)
    own = {"handle", "preprocess"}
    return any(
        isinstance(base, ast.Name)
        and base.id in surface.imported
        and surface.imported[base.id][0].module == "ts.torch_handler.base_handler"
        and own.isdisjoint(getattr(item, "name", "") for item in cls.body)
        for cls in surface.definitions.values()
        for base in cls.bases
    )


def _find(code: str, message: str, fix: str, path: Path | None, severity: Severity) -> Finding:
    return Finding(code=code, severity=severity, message=message, fix=fix, path=path)
