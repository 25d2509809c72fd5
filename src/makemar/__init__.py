"""Serve PyTorch models with TorchServe: handlers to subclass, archives to trust, servers to run.

This file is vendored into every archive beside `makemar.handlers`, so it stays tiny, imports
nothing and keeps to Python 3.9.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
