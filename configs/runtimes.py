"""What TorchServe can run a handler in."""

from __future__ import annotations

__all__ = ["RUNTIMES"]

# TorchServe 0.12: `python` is the launcher's own interpreter, `python3` whatever is on the PATH,
# `LSP` the C++ backend; case counts.
RUNTIMES = ("python", "python3", "LSP")
