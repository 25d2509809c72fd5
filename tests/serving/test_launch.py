from pathlib import Path

import pytest

from makemar.configs import ModelDefaults, ServerConfig, load_profile, parse_server_config
from makemar.errors import ConfigError
from makemar.serving.archive_links import ArchiveLink
from makemar.serving.launch import (
    Launch,
    effective_config,
    loads_at_start,
    plan_launch,
    torchserve_home,
)
from makemar.serving.model_settings import ModelSettings
from makemar.serving.work_dir import WorkDir

LINK = ArchiveLink(source=Path("/a/m.mar"), model="m", version="1.0", name="m.mar")


def plan(config: ServerConfig, root: Path, **environ: str) -> Launch:
    return plan_launch(
        config,
        work_dir=WorkDir(root=root, tmp=root / "tmp", private=False),
        java=Path("/java"),
        home=Path("/site"),
        links=(LINK,),
        settings=ModelSettings(workers=2, batch_size=4),
        environ=environ,
    )


def test_torchserve_is_found_without_importing_it():
    assert (torchserve_home() / "ts" / "frontend" / "model-server.jar").is_file()


def test_the_file_that_is_written_is_the_configuration_that_was_planned(tmp_path: Path):
    launch = plan(load_profile("development"), tmp_path)
    assert parse_server_config(launch.texts[tmp_path / "config.properties"]) == launch.config
    assert launch.config.model_store == str(tmp_path / "model_store")
    assert launch.config.disable_token_authorization is False


def test_the_model_api_is_on_unless_the_configuration_says_no(tmp_path: Path):
    assert plan(ServerConfig(), tmp_path).config.enable_model_api is True
    assert plan(ServerConfig(), tmp_path).config.load_models is None
    assert plan(ServerConfig(enable_model_api=False), tmp_path).config.enable_model_api is False


def test_with_the_model_api_off_the_archives_come_with_the_start(tmp_path: Path):
    before = ModelDefaults(response_timeout=9, batch_size=2)
    config = plan(
        ServerConfig(
            enable_model_api=False, load_models=("other.mar",), models={"m": {"1.0": before}}
        ),
        tmp_path,
    ).config
    assert config.load_models == ("other.mar", "m.mar")
    assert config.models["m"]["1.0"] == ModelDefaults(
        min_workers=2, max_workers=2, batch_size=4, response_timeout=9
    )


def test_a_store_that_is_loaded_whole_is_not_registered_again(tmp_path: Path):
    config = ServerConfig(load_models=("all",))
    assert loads_at_start(config)
    assert plan(config, tmp_path).config.load_models == ("all",)


def test_the_server_writes_nothing_outside_of_its_folder(tmp_path: Path):
    launch = plan(ServerConfig(), tmp_path, TMPDIR="/elsewhere", LOG_LOCATION="/elsewhere", A="b")
    assert launch.environ["A"] == "b"
    for name in ("TMPDIR", "TEMP", "LOG_LOCATION", "METRICS_LOCATION"):
        assert Path(launch.environ[name]).parent == tmp_path
    assert f"-Djava.io.tmpdir={tmp_path}/tmp" in launch.command
    assert "-ncs" in launch.command


def test_a_variable_cannot_put_another_configuration_in_the_place_of_this_one(tmp_path: Path):
    launch = plan(ServerConfig(), tmp_path, TS_CONFIG_FILE="/x", TS_INFERENCE_ADDRESS="y")
    assert not {"TS_CONFIG_FILE", "TS_INFERENCE_ADDRESS"} & launch.environ.keys()


def test_an_environment_never_shows_in_a_repr(tmp_path: Path):
    assert "hunter2" not in repr(plan(ServerConfig(), tmp_path, PASSWORD="hunter2"))


def test_relative_paths_are_the_callers_and_not_the_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    launch = plan(ServerConfig(model_store="store", metrics_config="m.yaml"), tmp_path / "w")
    assert launch.config.model_store == str(tmp_path / "store")
    assert launch.config.metrics_config == str(tmp_path / "m.yaml")
    assert str(tmp_path / "store") in launch.command


def test_the_launchers_own_keys_reach_java(tmp_path: Path):
    command = plan(ServerConfig(vmargs="-Xmx2g -Da=b", plugins_path="/plugins"), tmp_path).command
    assert {"-Xmx2g", "-Da=b"} <= set(command)
    assert command[command.index("-cp") + 1] == "/site/ts/frontend/*:/plugins/*"


def test_a_log_configuration_of_the_users_own_is_left_alone(tmp_path: Path):
    own = "-Dlog4j.configurationFile=file:///mine.xml"
    command = plan(ServerConfig(vmargs=own), tmp_path).command
    assert [word for word in command if "log4j" in word] == [own]
    assert any("log4j2-console.xml" in word for word in plan(ServerConfig(), tmp_path).command)


def test_variables_count_where_the_configuration_lets_them():
    environ = {
        "TS_INFERENCE_ADDRESS": "http://127.0.0.1:9",
        "TS_GRPC_INFERENCE_PORT": "7",
        "TS_ENABLE_MODEL_API": "true",
    }
    assert effective_config(ServerConfig(), environ) == ServerConfig()
    told = effective_config(ServerConfig(enable_envvars_config=True, job_queue_size=5), environ)
    assert told == ServerConfig(
        enable_envvars_config=True,
        job_queue_size=5,
        inference_address="http://127.0.0.1:9",
        grpc_inference_port=7,
        enable_model_api=True,
    )
    with pytest.raises(ConfigError):
        effective_config(
            ServerConfig(enable_envvars_config=True), {"TS_GRPC_INFERENCE_PORT": "many"}
        )
