"""The start of a worker, as TorchServe 0.12 plans it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from makemar.archiver import Archive, ArchiveFormat, Manifest, RecordState
from makemar.configs import ModelDefaults, ServerConfig
from makemar.errors import ServingError
from makemar.serving.worker_launch import WorkerLaunch, plan_worker

HOME = Path("/usr/lib/python3/site-packages")


def planned(
    *,
    settings: dict[str, object] | None = None,
    config: ServerConfig | None = None,
    home: Path = HOME,
    batch_size: int | None = None,
    gpu_id: int | None = None,
    environ: dict[str, str] | None = None,
    additions: dict[str, str] | None = None,
    **manifest: str,
) -> WorkerLaunch:
    archive = Archive(
        path=Path("m.mar"),
        archive_format=ArchiveFormat.MAR,
        manifest=Manifest(**{"model_name": "m", "handler": "h.py", **manifest}),
        members=(),
        record=RecordState.ABSENT,
        config=settings,
    )
    return plan_worker(
        archive,
        model_dir=Path("/tmp/x/model"),
        tmp=Path("/tmp/x/tmp"),
        home=home,
        config=config or ServerConfig(),
        batch_size=batch_size,
        gpu_id=gpu_id,
        environ=environ or {},
        additions=additions or {},
    )


def python_path(launch: WorkerLaunch) -> list[str]:
    return launch.environ["PYTHONPATH"].split(os.pathsep)


def test_the_command_is_the_server_s():
    assert planned().command == (
        sys.executable,
        f"{HOME}/ts/model_service_worker.py",
        "--sock-type",
        "unix",
        "--sock-name",
        "/tmp/x/tmp/.ts.sock.9000",
        "--metrics-config",
        f"{HOME}/ts/configs/metrics.yaml",
    )
    assert planned(runtime="python3").command[0] == "python3"
    assert planned(settings={"asyncCommunication": True}).command[-1] == "--async"
    own = planned(config=ServerConfig(metrics_config="/m.yaml"))
    assert own.command[-1] == "/m.yaml"


def test_python_looks_for_modules_in_torchserve_s_order():
    assert python_path(planned()) == ["/tmp/x/model"]
    given = {"PYTHONPATH": "/given"}
    assert python_path(planned(additions=given, handler="foo/h.py:run", home=Path("/src"))) == [
        "foo",
        "/given",
        "/tmp/x/model",
        "/src",
    ]
    assert python_path(planned(handler="foo/h.py")) == ["/tmp/x/model"]


def test_only_what_a_model_may_need_of_this_machine_is_passed_on():
    environ = {
        "PATH": "/bin",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "0",
        "AWS_SECRET_ACCESS_KEY": "x",
        "MAKEMAR_TOKEN": "y",
        "PYTHONPATH": "/here",
        "PYTHONSTARTUP": "/here/x.py",
    }
    seen = planned(environ=environ, additions={"MODEL": "z", "TMPDIR": "/elsewhere"}).environ
    assert {"PATH", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "MODEL"} <= seen.keys()
    assert not {"AWS_SECRET_ACCESS_KEY", "MAKEMAR_TOKEN", "PYTHONSTARTUP"} & seen.keys()
    assert seen["PYTHONPATH"] == "/tmp/x/model"
    assert seen["TMPDIR"] == "/tmp/x/tmp"  # its folder is removed with what is in it
    assert "AWS" not in repr(planned(environ=environ))


def test_the_server_s_configuration_reaches_the_worker():
    assert planned().environ["TS_DECODE_INPUT_REQUEST"] == "true"
    config = ServerConfig(
        decode_input_request=False,
        service_envelope="json",
        limit_max_image_pixels=False,
        max_response_size=77,
    )
    launch = planned(config=config, gpu_id=1)
    assert launch.environ["TS_DECODE_INPUT_REQUEST"] == "false"
    assert launch.order.envelope == "json"
    assert launch.order.limit_max_image_pixels is False
    assert launch.order.gpu_id == 1
    assert launch.longest == 77


JSON = ServerConfig(
    models={"m": {"1.0": ModelDefaults(batch_size=3, response_timeout=33, startup_timeout=34)}},
    default_response_timeout=98,
    default_startup_timeout=99,
)


@pytest.mark.parametrize(
    ("settings", "config", "expected"),
    [
        (None, None, (1, 120, 120)),
        (None, JSON, (3, 33, 34)),
        (None, ServerConfig(default_response_timeout=98), (1, 98, 120)),
        ({"batchSize": 5, "responseTimeout": 55, "startupTimeout": 56}, JSON, (5, 55, 56)),
        # An archive with a configuration file is asked alone for timeouts, whatever is in it.
        ({"other": 1}, JSON, (3, 120, 120)),
        # TorchServe 0.12 takes neither for a number, and no batch for one.
        ({"batchSize": "5"}, None, (1, 120, 120)),
        ({"batchSize": True}, None, (1, 120, 120)),
        ({"batchSize": 0}, JSON, (1, 120, 120)),
    ],
)
def test_who_wins_is_as_on_the_server(settings, config, expected: tuple[int, int, int]):
    launch = planned(settings=settings, config=config)
    found = (launch.order.batch_size, launch.response_timeout, launch.load_timeout)
    assert found == expected
    assert planned(settings=settings, config=config, batch_size=9).order.batch_size == 9


def test_what_takes_more_than_one_worker_is_refused():
    with pytest.raises(ServingError, match=r"m\.mar: parallelType pp takes several processes"):
        planned(settings={"parallelType": "pp"})
    with pytest.raises(ServingError, match="LSP"):
        planned(runtime="LSP")
    with pytest.raises(ServingError, match="install them here"):
        planned(
            config=ServerConfig(install_py_dep_per_model=True), requirements_file="requirements.txt"
        )
