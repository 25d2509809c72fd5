"""Names that belong to the worker: an archive that uses them as well breaks its own server.

TorchServe 0.12: the model's directory precedes the standard library and site-packages on the
worker's path, from the worker's very first import on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import PurePosixPath

__all__ = ["find_shadowed", "is_worker_module"]

# What the worker imports before it reads the handler, apart from the standard library.
_SERVER_MODULES = "PIL numpy packaging psutil torch torchgen ts typing_extensions yaml"
# In the standard library of a Python that serves (3.9), but not of every Python that packs.
_OLD_MODULES = (
    "aifc asynchat asyncore audioop binhex cgi cgitb chunk crypt distutils formatter imghdr imp "
    "mailcap nntplib parser pipes smtpd sndhdr spwd sunau symbol telnetlib uu xdrlib"
)
# Never imported by a library; `test` is what people call their own folders.
_HARMLESS = "antigravity idlelib test this turtle turtledemo"
_NAMES = (
    frozenset(sys.stdlib_module_names) | set(f"{_SERVER_MODULES} {_OLD_MODULES}".split())
) - set(_HARMLESS.split())
_MODULE_SUFFIXES = (".py", ".pyc", ".so")


def is_worker_module(name: str) -> bool:
    """Tell whether a top-level module name means something to the worker itself."""
    return name in _NAMES


def find_shadowed(members: Iterable[str]) -> dict[str, str]:
    """Return, of an archive's member names, those that shadow a module, with the module's name.

    A folder counts only with an `__init__` module: without one it never precedes a real package.
    """
    found = {}
    for member in members:
        parts = PurePosixPath(member).parts
        if len(parts) > 2 or not parts[-1].endswith(_MODULE_SUFFIXES):
            continue
        # The stem ends at the first dot: name.cpython-311-x86_64-linux-gnu.so
        stem = parts[-1].partition(".")[0]
        module = stem if len(parts) == 1 else parts[0] if stem == "__init__" else ""
        if is_worker_module(module):
            found[member] = module
    return found
