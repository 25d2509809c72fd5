"""Data on stdout: JSON, tables, sizes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence

import typer

from makemar.cli.failure import one_line

__all__ = ["format_size", "write_json", "write_line", "write_table"]


def write_line(*cells: object) -> None:
    """Write one line of data; cells are separated by tabs."""
    typer.echo("\t".join(one_line(str(cell)) for cell in cells))


def write_json(data: object) -> None:
    """Write data as indented JSON."""
    typer.echo(json.dumps(data, indent=2))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table: drawn on a terminal, separated by tabs in a pipe.

    In a pipe the first line holds the names of the columns.
    """
    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for line in (columns, *cells):
            write_line(*line)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))  # Text: a name is not markup
    Console().print(table)


def format_size(size: int) -> str:
    """Write a number of bytes for people."""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
