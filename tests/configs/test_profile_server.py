"""What a profile's comments say, asked of a real server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from makemar.archiver import ArchiveSpec, plan_archive, write_archive
from makemar.configs import ModelDefaults, load_profile
from makemar.errors import ResponseError
from makemar.serving import TorchServe

pytestmark = pytest.mark.server

HANDLER = """\
import json
import os


class Environment:
    def initialize(self, context):
        pass

    def handle(self, data, context):
        return [json.dumps(sorted(os.environ))] * len(data)
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "handler.py").write_text(HANDLER)
    spec = ArchiveSpec(model_name="env", version="1.0", handler="handler.py", base=tmp_path)
    return write_archive(plan_archive(spec), tmp_path / "env.mar")


def test_production_is_closed_and_its_settings_arrive(archive: Path) -> None:
    # The model API is opened, so that the list of allowed URLs is what refuses.
    config = replace(
        load_profile("production"),
        enable_model_api=True,
        models={"env": {"1.0": ModelDefaults(batch_size=3, max_batch_delay=7)}},
    )
    kept = {"DATABASE_URL": "kept"}
    hidden = {"DATABASE_PASSWORD": "x", "MY_SECRET_KEY": "x", "MAKEMAR_TOKEN": "x"}
    with TorchServe([archive], config=config, free_ports=True, environ=kept | hidden) as server:
        [model] = server.models
        assert (model.batch_size, model.max_batch_delay) == (3, 7)
        assert model.remaining_capacity == 512
        assert model.ready_workers == 1
        seen = set(server.inference.predict("env", b"").json())  # type: ignore[call-overload]
        assert kept.keys() <= seen
        assert not hidden.keys() & seen
        copy = archive.with_name("copy.mar")
        copy.write_bytes(archive.read_bytes())
        with pytest.raises(ResponseError, match="does not match any allowed URL"):
            server.management.register(copy.as_uri(), model_name="other")
        with urlopen(f"{server.metrics_url}", timeout=10) as page:
            assert b"ts_inference_requests_total" in page.read()
