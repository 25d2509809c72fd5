"""Why Java ended, out of what it printed."""

from __future__ import annotations

import re

__all__ = ["STARTED", "could_not_bind", "death_reason", "unloaded_models"]

STARTED = "Model server started."  # the last thing that TorchServe 0.12 prints at a good start
_NOISE = re.compile(r"^(\s|WARNING: |nvidia-smi |xpu-smi |#|\d{4}-\d\d-\d\dT|$)")
_SHUTDOWN = 'Exception in thread "Thread-'  # an ending server trips over what it never started
_EXCEPTION = re.compile(r"^(?:\w+\.)+(\w+(?:Exception|Error)): (.+)$")
_CAUSE = re.compile(r"^Caused by: \S+?(?:: (.+))?$")
_UNBOUND = re.compile(r"^(?:\w+\.)+\w+Exception: Failed to bind ", re.MULTILINE)
_UNLOADED = re.compile(r"Failed to load model: (\S+)[^\n]*\n(?:\S*?(\w+Exception): ([^\n]*))?")


def death_reason(printed: str) -> str:
    """Tell in one line why a server did not start; empty if it printed nothing about it."""
    lines = printed.partition(_SHUTDOWN)[0].splitlines()
    for line in lines:
        if line.startswith("Invalid configuration: "):
            return line.removeprefix("Invalid configuration: ")
    told = next((found for line in lines if (found := _EXCEPTION.match(line))), None)
    causes = [found[1] for line in lines if (found := _CAUSE.match(line)) and found[1]]
    if told is not None:
        return told[2] + (f" ({causes[-1]})" if causes and causes[-1] not in told[2] else "")
    return ": ".join([line.strip() for line in lines if not _NOISE.match(line)][-2:])


def could_not_bind(printed: str) -> bool:
    """Whether a server did not start because a port of its was taken."""
    return _UNBOUND.search(printed) is not None


def unloaded_models(log: str) -> dict[str, str]:
    """Find the archives that a start left out, and why.

    TorchServe 0.12 logs that an archive in `load_models` cannot be loaded, and starts without it.
    """
    return {found[1]: found[3] or found[2] or "" for found in _UNLOADED.finditer(log)}
