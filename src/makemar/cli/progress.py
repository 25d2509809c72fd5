"""Signs of life for long work, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["copy_progress", "waiting"]

_WORTH_SHOWING = 64_000_000  # bytes; less is done before one could read it


@contextmanager
def copy_progress(title: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """Yield a function to be told the bytes just copied, or None if there is nobody to see it."""
    if total < _WORTH_SHOWING or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show that something goes on, if there is somebody to see it."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(title):
        yield
