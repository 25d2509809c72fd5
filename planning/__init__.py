"""Reason about batch sizes, delays and workers before the first user finds out."""

from makemar.planning.cost import CostModel

__all__ = ["CostModel"]
