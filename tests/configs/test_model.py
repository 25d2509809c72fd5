from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from makemar.configs import ModelConfig, format_model_config, parse_model_config
from makemar.errors import ConfigError

COUNT = st.integers(1, 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FREE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)
SECTIONS = st.dictionaries(st.sampled_from(["pt2", "micro_batching", "labels", "mine"]), FREE)
PAIRS = st.tuples(COUNT, COUNT).map(sorted)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "batch_size": COUNT,
        "max_batch_delay": COUNT,
        "response_timeout": COUNT,
        "startup_timeout": COUNT,
        "device_type": st.sampled_from(["cpu", "gpu", "GPU"]),
        "device_ids": st.lists(st.integers(0, 15)).map(tuple),
        "parallel_level": COUNT,
        "torchrun": st.fixed_dictionaries(
            {}, optional={"nproc-per-node": COUNT, "rdzv-backend": TEXT}
        ),
        "max_retry_timeout_in_sec": COUNT,
        "client_timeout_in_mills": COUNT,
        "job_queue_size": COUNT,
        "use_job_ticket": st.booleans(),
        "use_venv": st.booleans(),
        "continuous_batching": st.booleans(),
        "max_num_sequence": COUNT,
        "handler": st.dictionaries(TEXT, FREE, max_size=3),
        "extra": SECTIONS,
    },
)


@given(values=SETTINGS, workers=st.none() | PAIRS)
def test_what_is_written_is_read_back(values: dict[str, object], workers: list[int] | None) -> None:
    if workers is not None:
        values = values | {"min_workers": workers[0], "max_workers": workers[1]}
    config = ModelConfig(**values)  # type: ignore[arg-type]
    if config == ModelConfig():
        with pytest.raises(ConfigError, match="nothing is set"):
            format_model_config(config)
    else:
        assert parse_model_config(format_model_config(config)) == config


def test_settings_handler_and_free_sections_are_told_apart() -> None:
    config = parse_model_config(
        "minWorkers: 1\nmaxWorkers: 2\nbatchSize: 8\nmaxBatchDelay: 50\ndeviceIds: [0, 1]\n"
        "handler:\n  top_k: 5\npt2:\n  compile: {enable: true}\n"
    )
    assert config == ModelConfig(
        min_workers=1,
        max_workers=2,
        batch_size=8,
        max_batch_delay=50,
        device_ids=(0, 1),
        handler={"top_k": 5},
        extra={"pt2": {"compile": {"enable": True}}},
    )


def test_the_file_has_the_server_s_spelling() -> None:
    text = format_model_config(ModelConfig(batch_size=4, sequence_max_idle_msec=10))
    assert yaml.safe_load(text) == {"batchSize": 4, "sequenceMaxIdleMSec": 10}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "empty"),
        ("# only a comment\n", None, "empty"),
        ("- a\n- b\n", 1, "top level must be a mapping"),
        ("a: [1\n", 2, "not YAML"),
        ("a: !!python/name:os.system x\n", 1, "not YAML"),
        ("a: 1\n---\nb: 2\n", 2, "not YAML"),
        ("1: 2\n", None, "the key 1 is not text"),
        ("batchSize: 8\nbatchSize: 4\n", 2, "twice"),
        ("x: 1\nbatch_size: 8\n", 2, "spelt batchSize"),
        ("batchSise: 8\n", 1, "did you mean batchSize"),
        ("batchSize: '8'\n", 1, "whole number without quotes"),
        ("batchSize: true\n", 1, "whole number"),
        ("batchSize: 0\n", 1, "between 1 and"),
        ("batchSize:\n", 1, "no value"),
        ("maxBatchDelay: 50.0\n", 1, "whole number"),
        ("maxBatchDelay: 0\n", 1, "1 is the smallest delay"),
        ("useVenv: 1\n", 1, "true or false"),
        ("deviceType: tpu\n", 1, "cpu, gpu"),
        ("deviceIds: 0\n", 1, "list of whole numbers"),
        ("minWorkers: 1\n", 1, "ignored without maxWorkers"),
        ("maxWorkers: 1\n", 1, "ignored without minWorkers"),
        ("minWorkers: 3\nmaxWorkers: 2\n", 1, "both are ignored"),
        ("parallelType: tp\n", 1, "torchrun"),
        ("torchrun: {nproc_per_node: 2}\n", 1, "nproc-per-node"),
        ("torchrun: {nproc-per-node: two}\n", 1, "whole number"),
        ("sequenceBatching: true\n", 1, "sequenceMaxIdleMSec"),
        ("asyncCommunication: true\nbatchSize: 4\n", 1, "batchSize 1"),
        ("handler: 5\n", 1, "mapping"),
    ],
)
def test_what_the_server_would_ignore_is_an_error(text: str, line: int | None, words: str) -> None:
    path = Path("model-config.yaml")
    with pytest.raises(ConfigError) as caught:
        parse_model_config(text, path=path)
    message = str(caught.value)
    assert words in message
    assert message.startswith("model-config.yaml")
    assert "\n" not in message
    assert caught.value.line == line


def test_a_bomb_of_aliases_or_depth_is_one_clear_error() -> None:
    with pytest.raises(ConfigError, match="not YAML"):
        parse_model_config("a: " + "[" * 5000)
