"""The main job, end to end: a handler, an archive, a real TorchServe, real pictures in batches."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from makemar.archiver import ArchiveSpec, Include, plan_archive, write_archive
from makemar.serving import TorchServe

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def archive(mobilenet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = ArchiveSpec(
        model_name="mobilenet",
        version="1.0",
        handler="handler.py",
        model_file=Path("network.py"),
        serialized_file=Path("mobilenet_v2.pth"),
        include=(Include(source=Path("index_to_name.json")),),
        base=mobilenet,
    )
    # Not beside the weights: other tests pack them there.
    return write_archive(plan_archive(spec), tmp_path_factory.mktemp("main_job") / "mobilenet.mar")


@pytest.fixture(scope="module")
def server(archive: Path):
    # A delay long enough that a slow machine still gathers all eight.
    with TorchServe([archive], batch_size=8, max_batch_delay=3000) as running:
        yield running


def batches(server):
    return [int(size) for size in re.findall(r"\bbatch=(\d+) forwards=", server.model_log())]


def test_eight_requests_in_one_batch_seven_pictures_answered_one_400(server, photographs):
    pictures = [photographs["coffee.png"]] * 7
    pictures.insert(4, b"this is not a picture")
    replies = server.inference.predict_many("mobilenet", pictures)
    assert [reply.status for reply in replies] == [200] * 4 + [400] + [200] * 3
    for reply in replies:
        if reply.ok:
            assert max(reply.json(), key=reply.json().get) == "espresso"
    problem = replies[4].json()
    assert problem["message"] == "the 21 bytes sent are not a picture"
    assert problem["type"] == "BadRequestError"
    assert problem["code"] == 400
    assert problem["request_id"] in server.model_log()
    assert 8 in batches(server)


def test_the_answer_alone_is_the_answer_in_a_batch(server, photographs):
    names = ["chelsea.png", "coffee.png", "motorcycle_left.png"]
    together = server.inference.predict_many("mobilenet", [photographs[n] for n in names])
    for name, reply in zip(names, together, strict=True):
        alone = server.inference.predict("mobilenet", photographs[name])
        assert alone.json() == pytest.approx(reply.json(), abs=1e-5)


def test_the_old_command_line_gives_an_archive_that_torchserve_loads(mobilenet, tmp_path):
    flags = [
        *("--model-name", "old", "--version", "2.0", "--handler", "handler.py"),
        *("--model-file", "network.py", "--serialized-file", "mobilenet_v2.pth"),
        *("--extra-files", "index_to_name.json", "--export-path", str(tmp_path), "-f"),
    ]
    program = Path(sys.executable).parent / "make-mar"
    subprocess.run([str(program), *flags], cwd=mobilenet, check=True)
    with TorchServe([tmp_path / "old.mar"]) as other:
        (model,) = other.models
        assert (model.name, model.version, model.ready_workers) == ("old", "2.0", 1)
