from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from makemar.configs import (
    FatalConfigError,
    ModelConfig,
    check_model_config,
    format_model_config,
    parse_model_config,
)
from makemar.errors import ConfigError, Severity

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
        ("x: 1\nx: 2\n", 2, "twice"),
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
        ("torchrun: [1]\n", 1, "mapping of settings"),
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


FATAL = [
    ("", "config-empty"),
    ("~", "config-empty"),
    ("- a\n", "config-mapping"),
    ("a: [", "config-syntax"),
    ("a: " + "[" * 10_000, "config-syntax"),
    ("a: " + "{b: " * 10_000, "config-syntax"),
    # Scalars over which PyYAML itself stumbles, each with an exception of another kind.
    ("a: !!bool maybe\n", "config-syntax"),
    ("a: !!int ''\n", "config-syntax"),
    ("a: !!float x\n", "config-syntax"),
    ("a: !!timestamp x\n", "config-syntax"),
    ("a: 2001-99-99\n", "config-syntax"),
    ("a: !!binary ä\n", "config-syntax"),
    ("a: " + "9" * 5000, "config-syntax"),
    ("a: \0\n", "config-syntax"),
    ("? [a]\n: b\n", "config-syntax"),
    ("a: *b\n", "config-syntax"),
    ("1: 2\n1: 3\n", "config-key"),
    ("a: 1\n".encode("utf-16"), "config-syntax"),
    ("a: 1\n".encode("utf-16-be"), "config-syntax"),
    ("a: ä\n".encode("latin-1"), "config-syntax"),
    ("parallelType: tp\n", "config-clash"),
    ("parallelType: PP\n", "config-clash"),
    ("sequenceBatching: true\n", "config-clash"),
    ("asyncCommunication: true\nbatchSize: 4\n", "config-clash"),
]


@pytest.mark.parametrize(("text", "code"), FATAL, ids=[repr(text)[:30] for text, _ in FATAL])
def test_what_breaks_the_server_is_told_from_what_it_ignores(text: str | bytes, code: str) -> None:
    with pytest.raises(FatalConfigError) as caught:
        parse_model_config(text, path=Path("c.yaml"))
    assert caught.value.code == code
    assert caught.value.path == Path("c.yaml")
    assert "\n" not in str(caught.value)
    (finding,) = check_model_config(text)
    assert (finding.code, finding.severity) == (code, Severity.ERROR)


def test_everything_is_told_at_once_and_a_fatal_fault_hides_behind_no_other() -> None:
    findings = check_model_config(
        "batchSize: '8'\nminWorkers: 1\nmax_batch_delay: 3\nuseVenv:\nparallelType: tp\n"
        "x: 1\nx: 2\n"
    )
    assert [(f.code, f.line) for f in findings] == [
        ("config-ignored", 7),
        ("config-ignored", 4),
        ("config-ignored", 1),
        ("config-ignored", 3),
        ("config-ignored", 2),
        ("config-clash", 5),
    ]
    assert all(str(finding) for finding in findings)


@pytest.mark.parametrize(
    "text",
    [
        # The server ignores the wrong half, so that the rest clashes with nothing.
        "asyncCommunication: true\nbatchSize: '4'\n",
        "parallelType: ring\n",
    ],
)
def test_what_is_ignored_clashes_with_nothing(text: str) -> None:
    assert [finding.code for finding in check_model_config(text)] == ["config-ignored"]


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert parse_model_config(b"\xef\xbb\xbfbatchSize: 2\n") == ModelConfig(batch_size=2)
    assert check_model_config("handler: {}\nhandlers: {}\n") == ()


@given(st.binary(max_size=40) | st.text(max_size=40))
def test_no_text_gives_anything_but_our_own_errors(text: str | bytes) -> None:
    for finding in check_model_config(text):
        assert "\n" not in finding.message


HUGE = "0x" + "f" * 5000


@pytest.mark.parametrize(
    "text",
    [
        f"batchSize: {HUGE}",
        f"batchSize: -{HUGE}",
        f"minWorkers: {HUGE}\nmaxWorkers: 1",
        f"deviceIds: [{HUGE}]",
        f"? {HUGE}\n: 1",
        f"torchrun:\n  ? {HUGE}\n  : 1",
        "batchSize: 0b" + "1" * 50_000,
        "batchSize: " + "9" * 5000,
        "batchSize: [" + "1, " * 5000 + "]",
    ],
)
def test_a_number_that_python_cannot_write_is_one_short_line(text: str) -> None:
    (finding,) = check_model_config(text)[:1]
    assert len(finding.message) < 400
