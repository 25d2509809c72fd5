from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.configs import (
    ModelDefaults,
    ServerConfig,
    format_server_config,
    parse_properties,
    parse_server_config,
)
from makemar.errors import ConfigError

COUNT = st.integers(1, 2**31 - 1)
WORD = st.text(st.characters(exclude_characters=",", exclude_categories=["Cs"]), min_size=1).filter(
    lambda word: word == word.strip()
)
ADDRESSES = st.one_of(
    st.builds("http://127.0.0.1:{}".format, st.integers(1, 65535)),
    st.sampled_from(["https://example.org", "unix:/tmp/x.sock", "http://0.0.0.0"]),
)
SPECIAL = {
    "inference_address": ADDRESSES,
    "management_address": ADDRESSES,
    "metrics_address": ADDRESSES,
    "grpc_inference_address": st.sampled_from(["127.0.0.1", "::1", "host.example.org"]),
    "grpc_management_address": st.sampled_from(["127.0.0.1", "0.0.0.0"]),
    "metrics_mode": st.sampled_from(["log", "prometheus", "legacy"]),
    "token_expiration_min": st.floats(min_value=1e-3, max_value=1e9),
    "io_ratio": st.integers(1, 100),
}
BY_TYPE = {
    "bool | None": st.booleans(),
    "int | None": COUNT,
    "str | None": st.text(),
    "tuple[str, ...] | None": st.lists(WORD).map(tuple),
}


def strategy_of(field: dataclasses.Field[object]) -> st.SearchStrategy[object]:
    if field.name in SPECIAL:
        return SPECIAL[field.name]
    if field.name.endswith("_port"):
        return st.integers(1, 65535)
    return BY_TYPE[str(field.type)]


def some(**values: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({}, optional=values)


def make_defaults(values: dict[str, object]) -> ModelDefaults:
    low, high = values.get("min_workers"), values.get("max_workers")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        values = values | {"min_workers": high, "max_workers": low}
    return ModelDefaults(**values)  # type: ignore[arg-type]


DEFAULTS = some(
    min_workers=COUNT,
    max_workers=COUNT,
    batch_size=COUNT,
    max_batch_delay=COUNT,
    response_timeout=COUNT,
    startup_timeout=COUNT,
    runtime_type=st.sampled_from(["python", "python3", "LSP"]),
).map(make_defaults)
MODELS = st.dictionaries(st.text(), st.dictionaries(st.text(), DEFAULTS, max_size=3), max_size=3)
CONFIGS = some(
    models=MODELS,
    **{f.name: strategy_of(f) for f in dataclasses.fields(ServerConfig) if f.name != "models"},
).map(lambda values: ServerConfig(**values))  # type: ignore[arg-type]


@given(CONFIGS)
def test_what_is_written_is_read_back(config: ServerConfig) -> None:
    assert parse_server_config(format_server_config(config)) == config


def test_every_type_is_read() -> None:
    config = parse_server_config(
        "inference_address=http://127.0.0.1:8080\n"
        "job_queue_size=7\n"
        "token_expiration_min=0.5\n"
        "enable_model_api=TRUE\n"
        "load_models=a.mar,b=b.mar\n"
        "allowed_urls=\n"
        'models={"a": {"1.0": \\\n  {"batchSize": 8, "maxBatchDelay": "50"}}}\n'
    )
    assert config == ServerConfig(
        inference_address="http://127.0.0.1:8080",
        job_queue_size=7,
        token_expiration_min=0.5,
        enable_model_api=True,
        load_models=("a.mar", "b=b.mar"),
        allowed_urls=(),
        models={"a": {"1.0": ModelDefaults(batch_size=8, max_batch_delay=50)}},
    )


def test_what_is_not_set_is_not_written() -> None:
    assert format_server_config(ServerConfig()) == ""
    text = format_server_config(ServerConfig(allowed_urls=(), enable_model_api=False))
    assert parse_properties(text) == {"allowed_urls": "", "enable_model_api": "false"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("job_queue_size=abc", "job_queue_size must be a whole number"),
        ("job_queue_size=10 ", "spaces at the end"),
        ("job_queue_size=7 # note", "a comment needs a line of its own"),
        ("job_queue_size=0", "between 1 and"),
        ("job_queue_size=3000000000", "between 1 and"),
        ("default_response_timeout=x", "whole number"),
        ("enable_model_api=yes", "must be true or false"),
        ("enable_model_api=true ", "spaces at the end"),
        ("decode_input_request=True", "in lower case"),
        ("inference_address=127.0.0.1:8080", "http"),
        ("inference_address=http://127.0.0.1:8080 ", "spaces at the end"),
        ("inference_address=http://127.0.0.1:99999", "http"),
        ("grpc_inference_address=http://127.0.0.1", "host alone"),
        ("grpc_inference_port=70700", "between 1 and 65535"),
        ("token_expiration_min=-1", "positive number"),
        ("metrics_mode=Prometheus", "one of log, prometheus, legacy"),
        ("load_models=a.mar, b.mar", "space around a comma"),
        ("job_queue_sise=7", "did you mean job_queue_size"),
        ("jobQueueSize=7", "did you mean job_queue_size"),
        ("batch_size=8", "models JSON"),
        ("python=/usr/bin/python3", "launcher"),
        ("something_else=1", "unknown key"),
        ("models={", "not JSON"),
        ('models={"a": {"batchSize": 8}}', "name, version, settings"),
        ('models={"a": {"1.0": {"batch_size": 8}}}', "did you mean batchSize"),
        ('models={"a": {"1.0": {"batchSize": true}}}', "whole number"),
        ('models={"a": {"1.0": {"batchSize": 0}}}', "0 and below as unset"),
        ('models={"a": {"1.0": {"batchSize": "' + "9" * 5000 + '"}}}', "whole number"),
        ("models=" + '{"a":' * 100_000, "not JSON"),
        ("job_queue_size=" + "9" * 5000, "whole number"),
        ('models={"a": {"1.0": {"runtimeType": "ruby"}}}', "runtimeType"),
        ('models={"a": {"1.0": {"minWorkers": 2, "maxWorkers": 1}}}', "more than maxWorkers"),
    ],
)
def test_a_bad_line_is_named_with_its_fix(line: str, words: str) -> None:
    path = Path("config.properties")
    with pytest.raises(ConfigError) as caught:
        parse_server_config(f"# top\n\n{line}\n", path=path)
    message = str(caught.value)
    assert words in message
    assert message.startswith("config.properties:3: ")
    assert "\n" not in message
    assert caught.value.line == 3
    assert caught.value.path == path
    assert caught.value.key is not None


def test_snapshot_keys_in_the_models_json_do_nothing_and_are_passed_over() -> None:
    # TorchServe's own documentation shows them in this place.
    text = 'models={"noop": {"1.0": {"defaultVersion": true, "marName": "n.mar", "minWorkers": 1}}}'
    assert parse_server_config(text).models == {"noop": {"1.0": ModelDefaults(min_workers=1)}}


def test_references_are_filled_in_from_the_environment_given() -> None:
    text = "job_queue_size=$$QUEUE$$\nmodel_store=/$$WHERE$$/x\n"
    config = parse_server_config(text, environ={"QUEUE": "5", "WHERE": "data"})
    assert config == ServerConfig(job_queue_size=5, model_store="/data/x")
    assert parse_server_config("model_store=$$WHERE$$").model_store == "$$WHERE$$"


def test_a_reference_that_cannot_be_filled_in_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"\$\$WHERE\$\$, which the environment lacks"):
        parse_server_config("model_store=$$WHERE$$", environ={})
    with pytest.raises(ConfigError, match="filled in from the environment"):
        parse_server_config("job_queue_size=$$QUEUE$$")


@pytest.mark.parametrize(
    "values",
    [
        {"job_queue_size": "7"},
        {"job_queue_size": True},
        {"enable_model_api": 1},
        {"allowed_urls": "file://.*"},
        {"allowed_urls": ("a{1,2}",)},
        {"load_models": ("",)},
        {"model_store": Path("/x")},
        {"token_expiration_min": float("inf")},
        {"models": {"m": ModelDefaults()}},
        {"models": {"m": {"1.0": {"batchSize": 1}}}},
        {"models": []},
    ],
)
def test_a_value_that_could_not_be_written_cannot_be_made(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        ServerConfig(**values)  # type: ignore[arg-type]


def test_a_keystore_s_password_is_in_no_repr_and_no_message() -> None:
    assert "hush" not in repr(ServerConfig(keystore_pass="hush"))
    with pytest.raises(ConfigError) as caught:
        ServerConfig(keystore_pass=("hush",))  # type: ignore[arg-type]
    assert "hush" not in str(caught.value)
