"""Which samples share a forward: equal shapes together, ragged ones with little padding."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Callable, Protocol

import torch

from makemar.handlers.failures import let_interrupt_through

__all__ = ["ForwardLimits", "Group", "group_samples", "take_chunk"]


class ForwardLimits(Protocol):
    """What a handler's settings say about the size of a forward."""

    @property
    def max_forward_batch(self) -> int | None: ...
    @property
    def max_tokens(self) -> int | None: ...
    @property
    def max_padding_waste(self) -> float: ...


class Group:
    """Positions of samples that may share a forward, with the lengths of ragged ones.

    `shape` is what samples of one shape have in common. With `lengths` both lists run from the
    longest sample to the shortest, so that the first forward is the one most likely not to fit.
    """

    def __init__(
        self, positions: list[int], *, shape: Hashable = None, lengths: list[int] | None = None
    ) -> None:
        self.positions = positions
        self.shape = shape
        self.lengths = lengths

    def bucket(self, start: int) -> Hashable:
        """Return what costs alike from `start` on: one shape, or one power of two in length."""
        if self.lengths is None:
            return self.shape
        return ("length", max(0, self.lengths[start] - 1).bit_length())


def group_samples(
    samples: Sequence[Any], length: Callable[[Any], int | None] | None
) -> tuple[list[Group], dict[int, BaseException]]:
    """Sort samples into groups: by shape, or one ragged group where `length` knows a number.

    Without `length` they are alike: rows that have no shape yet. What has neither length nor
    shape is in no group, but under its position in the second result, with the reason.
    """
    if length is None:
        return ([Group(list(range(len(samples))))] if samples else []), {}
    lengths: dict[int, int] = {}
    shaped: dict[Hashable, list[int]] = {}
    failures: dict[int, BaseException] = {}
    for i, sample in enumerate(samples):
        try:
            known = length(sample)
            if known is not None:
                lengths[i] = int(known)
            else:
                shaped.setdefault(shape_of(sample), []).append(i)
        except BaseException as error:  # noqa: BLE001
            let_interrupt_through(error)
            failures[i] = error
    groups = [Group(positions, shape=shape) for shape, positions in shaped.items()]
    if lengths:
        ragged = sorted(lengths, key=lambda i: -lengths[i])
        groups.append(Group(ragged, lengths=[lengths[i] for i in ragged]))
    return groups, failures


def take_chunk(group: Group, start: int, limits: ForwardLimits, *, most: int) -> int:
    """Return where the next forward ends: the group's samples from `start` up to that position.

    At most `most` samples, and as many as the limits allow: of ragged ones also `max_tokens` after
    padding, and the share `max_padding_waste` of them padding. There is always at least one.
    """
    most = min(most, limits.max_forward_batch or most)
    stop = min(start + most, len(group.positions))
    if group.lengths is None:
        return stop
    longest, used = max(1, group.lengths[start]), 0
    for end in range(start, stop):
        padded = longest * (end - start + 1)
        used += group.lengths[end]
        too_many = limits.max_tokens is not None and padded > limits.max_tokens
        if end > start and (too_many or 1 - used / padded > limits.max_padding_waste):
            return end
    return stop


def shape_of(sample: Any) -> Hashable:
    """Return the shapes of all tensors inside a sample; values without a shape count as alike."""
    if isinstance(sample, torch.Tensor):
        return sample.shape
    if isinstance(sample, Mapping):
        return tuple((key, shape_of(sample[key])) for key in sorted(sample, key=str))
    if isinstance(sample, (list, tuple)):
        return tuple(shape_of(item) for item in sample)
    shape = getattr(sample, "shape", None)  # numpy
    return tuple(shape) if shape is not None else type(sample).__name__
