"""How many workers, how large a batch, how long a wait: settings that mean what they say."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from makemar.errors import ServingError

__all__ = ["ModelSettings", "check_settings"]

_MINIMUM = {
    "workers": (0, ""),
    "initial_workers": (0, ""),
    "batch_size": (1, ""),
    # TorchServe 0.12: with 0 a waiting request is joined by one other at most.
    "max_batch_delay": (1, " (ms); with 0 the server puts no more than two into a batch"),
    "response_timeout": (1, " (s)"),
    "startup_timeout": (1, " (s)"),
}


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """How an archive is to run; `max_batch_delay` is in milliseconds, None leaves it unset.

    Raises ServingError for a number that the server would take and misunderstand.
    """

    workers: int = 1
    batch_size: int | None = None
    max_batch_delay: int | None = None

    def __post_init__(self) -> None:
        check_settings(**asdict(self))


def check_settings(**settings: int | None) -> None:
    """Raise ServingError for a setting that is too small; None is unset.

    TorchServe 0.12 stores 0 and negative numbers as they are, except for -1 and -100, which it
    takes for unset.
    """
    for name, value in settings.items():
        minimum, why = _MINIMUM[name]
        if value is not None and value < minimum:
            raise ServingError(f"{name} is {value}; give {minimum} or more{why}")
