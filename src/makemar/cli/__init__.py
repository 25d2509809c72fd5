"""The command line `make-mar`: the roof of the house, which speaks so that the rooms need not."""

from makemar.cli.app import main

__all__ = ["main"]
