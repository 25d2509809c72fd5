"""Bisection finds exactly the items that fail, and asks no more often than it must."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.handlers.failures import Failed
from makemar.handlers.forwards import Forwards
from makemar.handlers.isolation import isolate
from makemar.handlers.settings import HandlerSettings
from makemar.handlers.statistics import BatchStatistics


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


# -- requests with many samples ------------------------------------------------------------------


def run_all(owners, bad, *, length=None, **settings):
    """Run one sample per owner through `Forwards`; return outcomes and each run's positions."""
    runs = []

    def model(positions):
        runs.append(list(positions))
        if bad & set(positions):
            raise ValueError("poison")
        return [position * 10 for position in positions]

    outcomes = Forwards().run(
        list(range(len(owners))),
        model,
        length=length or (lambda _: None),
        limits=HandlerSettings(**settings),
        statistics=BatchStatistics(len(set(owners))),
        owners=owners,
    )
    return outcomes, runs


def check_outcomes(owners, bad, outcomes):
    condemned = {owners[position] for position in bad}
    for position, outcome in enumerate(outcomes):
        if owners[position] not in condemned:
            assert outcome == position * 10
        elif position in bad:
            assert isinstance(outcome, Failed)
    for owner in condemned:
        assert any(isinstance(o, Failed) for o, its in zip(outcomes, owners, strict=True)
                   if its == owner)  # fmt: skip


def test_a_request_with_10000_bad_samples_costs_its_neighbours_a_few_forwards():
    owners = [*range(16), *[16] * 10_000, *range(17, 32)]
    bad = set(range(16, 10_016))
    outcomes, runs = run_all(owners, bad)
    check_outcomes(owners, bad, outcomes)
    assert len(runs) <= 1 + 2 * math.ceil(math.log2(len(owners)))


@pytest.mark.parametrize("settings", [{"max_forward_batch": 1}, {"max_forward_batch": 64}])
def test_small_forwards_run_nothing_more_of_a_request_that_has_failed(settings):
    owners = [*[0] * 1000, *range(1, 32)]
    outcomes, runs = run_all(owners, set(range(1000)), **settings)
    check_outcomes(owners, set(range(1000)), outcomes)
    assert len(runs) <= 13 + 31
    assert sum(0 in run or 1 in run for run in runs) <= 7


def test_bad_samples_of_every_length_are_left_out_of_all_later_forwards():
    owners = [0, 1] * 500
    bad = set(range(0, 1000, 2))
    outcomes, runs = run_all(owners, bad, length=lambda sample: 1 + sample, max_tokens=4000)
    check_outcomes(owners, bad, outcomes)
    failed = [run for run in runs if bad & set(run)]
    assert len(failed) <= 10


def test_a_failure_names_the_sample_to_blame_wherever_it_stands_for_it():
    # Ragged samples run from the longest to the shortest: the last one of request 0 fails first.
    owners = [1, 0, 1, 0, 0]
    outcomes, _ = run_all(owners, {4}, length=lambda sample: 1 + sample, max_forward_batch=1)
    assert all("sample 2: " in outcomes[i].in_sample(99).told().message for i in (1, 3, 4))
    assert [outcomes[0], outcomes[2]] == [0, 20]


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=64),
    st.sets(st.integers(0, 63), max_size=12),
)
def test_neighbours_are_isolated_and_forwards_grow_with_the_requests_that_fail(owners, bad):
    bad = {position for position in bad if position < len(owners)}
    outcomes, runs = run_all(owners, bad)
    check_outcomes(owners, bad, outcomes)
    condemned = {owners[position] for position in bad}
    assert len(runs) <= 1 + 2 * math.ceil(math.log2(len(owners))) * len(condemned)


def test_without_owners_every_position_is_on_its_own():
    run = Poisonous([0, 1])
    outcomes = isolate(range(4), run)
    assert [isinstance(outcome, Failed) for outcome in outcomes] == [True, True, False, False]
