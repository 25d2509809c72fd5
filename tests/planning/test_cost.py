"""The formulas of batching, and the statements that people get wrong about them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.errors import PlanError
from makemar.planning import CostModel

costs = st.builds(
    CostModel, c=st.floats(0, 1, allow_nan=False), m=st.floats(1e-6, 1, allow_nan=False)
)
sizes = st.integers(1, 10_000)


@given(costs, sizes)
def test_the_speedup_never_reaches_its_ceiling(cost, batch):
    assert cost.speedup(batch) <= cost.ceiling * (1 + 1e-9)


@given(costs)
def test_a_batch_of_one_is_no_batch(cost):
    assert cost.speedup(1) == pytest.approx(1)


@given(costs, sizes)
def test_more_batch_never_lowers_throughput_nor_passes_its_limit(cost, batch):
    assert cost.throughput(batch) <= cost.throughput(batch + 1) * (1 + 1e-9)
    assert cost.throughput(batch) <= cost.throughput_limit * (1 + 1e-9)


@given(costs, sizes)
def test_batching_deletes_all_but_one_of_the_fixed_costs(cost, batch):
    saved = cost.serial_time(batch) - cost.batch_time(batch)
    assert saved == pytest.approx((batch - 1) * cost.c, abs=1e-6)


@given(st.floats(1e-6, 1), sizes)
def test_without_fixed_cost_batching_gives_exactly_nothing(m, batch):
    assert CostModel(c=0, m=m).speedup(batch) == pytest.approx(1)


def test_doubling_a_batch_near_the_ceiling_does_not_double_the_speedup():
    cost = CostModel(c=0.0042, m=0.001)  # S(16) = 4.1
    assert cost.speedup(16) == pytest.approx(4.1, abs=0.1)
    assert cost.speedup(32) < 5


def test_two_instances_serve_twice_as_much():
    cost = CostModel(c=0.005, m=0.001)
    assert cost.throughput(16, instances=2) == pytest.approx(2 * cost.throughput(16))


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, "8"])
def test_a_batch_size_that_counts_nothing_is_refused(batch):
    with pytest.raises(PlanError, match="integer >= 1"):
        CostModel(c=0, m=1).batch_time(batch)


@pytest.mark.parametrize(
    ("c", "m"), [(-1, 1), (0, 0), (0, -1), (float("nan"), 1), (0, float("inf"))]
)
def test_a_cost_that_no_model_has_is_refused(c, m):
    with pytest.raises(PlanError, match=r"is .* s; the"):
        CostModel(c=c, m=m)
