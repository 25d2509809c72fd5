import pytest

from makemar.errors import ServingError
from makemar.serving import ManagementClient, TorchServe


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"batch_size": 0}, "batch_size is 0; give 1 or more"),
        ({"batch_size": -1}, "batch_size is -1; give 1 or more"),
        ({"max_batch_delay": 0}, r"max_batch_delay is 0; give 1 or more \(ms\); with 0 .* two"),
        ({"max_batch_delay": -100}, "max_batch_delay is -100"),
    ],
)
def test_numbers_that_the_server_misunderstands_are_refused_before_any_call(
    settings: dict[str, int], told: str
):
    with pytest.raises(ServingError, match=told):
        TorchServe(**settings)
    with pytest.raises(ServingError, match=told):
        ManagementClient().register("m.mar", **settings)


def test_fewer_than_no_workers_and_no_time_are_refused():
    for settings in ({"initial_workers": -1}, {"response_timeout": 0}, {"startup_timeout": -5}):
        with pytest.raises(ServingError, match="or more"):
            ManagementClient().register("m.mar", **settings)
    with pytest.raises(ServingError, match="workers is -1"):
        TorchServe(workers=-1)
