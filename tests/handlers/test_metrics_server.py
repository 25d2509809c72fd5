"""Batch statistics through a real TorchServe's metrics, as Prometheus fetches them."""

import dataclasses
import json
import re
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from makemar.archiver import ArchiveSpec, plan_archive, write_archive
from makemar.configs import load_profile
from makemar.handlers.statistics import METRICS
from makemar.serving import TorchServe

pytestmark = pytest.mark.server

NETWORK = """
import torch


class Picky(torch.nn.Module):
    def forward(self, x):
        if torch.isnan(x).any():
            raise ValueError("real numbers only")
        return x * 2
"""
CONFIG = "batchSize: 8\nmaxBatchDelay: 3000\nhandler:\n  metrics: {wanted}\n"


def archive(folder, name, *, wanted):
    folder = folder / name
    folder.mkdir()
    (folder / "network.py").write_text(NETWORK)
    (folder / "handler.py").write_text(
        "from makemar.handlers import BaseHandler\n\n\nclass Handler(BaseHandler):\n    pass\n"
    )
    (folder / "model-config.yaml").write_text(CONFIG.format(wanted=str(wanted).lower()))
    spec = ArchiveSpec(
        model_name=name,
        version="1.0",
        handler="handler.py",
        model_file=Path("network.py"),
        config_file=Path("model-config.yaml"),
        base=folder,
    )
    return write_archive(plan_archive(spec), folder / f"{name}.mar")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    archives = [archive(folder, "told", wanted=True), archive(folder, "quiet", wanted=False)]
    config = dataclasses.replace(
        load_profile("development"),
        metrics_mode="prometheus",
        model_metrics_auto_detect=True,
        disable_system_metrics=True,
    )
    with TorchServe(archives, config=config, free_ports=True) as running:
        yield running


def ask(server, model, bodies):
    """Send requests at once; return their statuses."""

    def send(body):
        data = json.dumps(body).encode()
        return server.inference.predict(model, data, content_type="application/json").status

    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(send, bodies))


def fetch(server, model):
    """Return a model's own metrics, by name."""
    with urllib.request.urlopen(server.metrics_url, timeout=10) as reply:
        text = reply.read().decode()
    lines = re.findall(r'^(\w+)\{(.*ModelName="(\w+)".*)\} (\S+)$', text, re.MULTILINE)
    return {name: float(value) for name, _, owner, value in lines if owner == model}


def fetch_until(server, model, complete):
    """Fetch until all is there: a worker's metrics pass through its log, line by line."""
    deadline = time.monotonic() + 30
    while not complete(found := fetch(server, model)):
        assert time.monotonic() < deadline, f"only {found}"
        time.sleep(0.1)
    return found


def test_what_a_batch_was_like_is_told_to_prometheus(server):
    bodies = [*[[float(i)] for i in range(7)], [float("nan")]]
    assert sorted(ask(server, "told", bodies)) == [200] * 7 + [500]
    assert ask(server, "quiet", [[1.0]]) == [200]
    told = fetch_until(server, "told", lambda found: METRICS.keys() <= found.keys())
    # Counters add up over the batches, however the server grouped these requests.
    assert (told["MakemarBatchSize"], told["MakemarSamples"]) == (8, 8)
    assert told["MakemarFailed"] == 1
    assert 2 <= told["MakemarForwards"] <= 8
    assert 1 <= told["MakemarBisections"] <= 3
    assert told["MakemarMemorySplits"] == 0
    assert 0 < told["MakemarForwardTime"] < told["HandlerTime"] < 60_000


def test_a_handler_that_is_not_asked_to_tells_nothing_of_its_own(server):
    ask(server, "quiet", [[1.0]])
    quiet = fetch_until(server, "quiet", lambda found: "PredictionTime" in found)
    assert not [name for name in quiet if name.startswith("Makemar")]
