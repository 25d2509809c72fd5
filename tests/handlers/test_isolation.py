"""Bisection finds exactly the items that fail, and asks no more often than it must."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.handlers.failures import Failed
from makemar.handlers.isolation import isolate


class Poisonous:
    """A run that fails whenever one of `bad` is among its items; counts its calls."""

    def __init__(self, bad):
        self.bad = frozenset(bad)
        self.calls = 0

    def __call__(self, items):
        self.calls += 1
        if self.bad & set(items):
            raise ValueError(f"poison among {len(items)}")
        return [item * 10 for item in items]


@given(st.integers(0, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, 39)))))
def test_every_item_gets_its_own_outcome_in_order(case):
    count, bad = case
    outcomes = isolate(range(count), Poisonous(bad))
    assert len(outcomes) == count
    for item, outcome in enumerate(outcomes):
        if item in bad:
            assert isinstance(outcome, Failed)
            assert str(outcome.error) == "poison among 1"
        else:
            assert outcome == item * 10


@pytest.mark.parametrize("position", [0, 1, 15, 16, 30, 31])
def test_one_poisonous_item_among_32_takes_at_most_11_runs(position):
    run = Poisonous([position])
    isolate(range(32), run)
    assert run.calls <= 11


@given(st.integers(1, 64), st.sets(st.integers(0, 63), max_size=8))
def test_runs_grow_with_the_poisonous_items_not_with_the_batch(count, bad):
    bad = {item for item in bad if item < count}
    run = Poisonous(bad)
    isolate(range(count), run)
    assert run.calls <= 1 + 2 * math.ceil(math.log2(count)) * len(bad)


def test_sys_exit_in_a_run_costs_one_item_not_the_process():
    def run(items):
        if 3 in items:
            raise SystemExit("a handler called sys.exit()")
        return items

    outcomes = isolate(range(4), run)
    assert outcomes[:3] == [0, 1, 2]
    assert isinstance(outcomes[3], Failed)


def test_no_items_means_no_runs():
    run = Poisonous([])
    assert isolate([], run) == []
    assert run.calls == 0
