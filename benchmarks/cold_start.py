"""How long a real TorchServe takes from a registration to the first answer.

    OMP_NUM_THREADS=1 python benchmarks/cold_start.py [--rounds 3] [--folder DIR]

The same state dict of 512 MB, in torch-model-archiver's default .mar with TorchServe's BaseHandler,
and in make-mar's .mar and directory with makemar's; and a model of some kB beside them. One server;
each registration unpacks the archive and starts a worker anew. Needs 3 GiB of disk.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

# For the JVM and its workers, too.
os.environ["OMP_NUM_THREADS"] = "1"

from makemar.archiver import ArchiveFormat, ArchiveSpec, plan_archive, write_archive
from makemar.configs import load_profile
from makemar.serving import TorchServe

NETWORK = """
import torch


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear({width}, {width}) for _ in range(8))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.mean(1)
"""
# The line that is imported is the only difference.
HANDLER = """
import torch
from {module} import BaseHandler


class Handler(BaseHandler):
    def preprocess(self, data):
        return torch.tensor([row["body"] for row in data])
"""
# In a process of its own: the state dict is no part of the server's memory.
SAVE = """
import sys
import torch
sys.path.insert(0, sys.argv[1])
from network import Network
torch.save(Network().state_dict(), sys.argv[1] + "/weights.pth")
"""
WIDTHS = {"big": 4096, "tiny": 16}
OURS, THEIRS = "makemar.handlers", "ts.torch_handler.base_handler"


def lay_out(folder: Path, width: int, module: str) -> Path:
    """Write a project: network, weights and handler."""
    folder.mkdir()
    (folder / "network.py").write_text(NETWORK.format(width=width))
    (folder / "handler.py").write_text(HANDLER.format(module=module))
    subprocess.run([sys.executable, "-c", SAVE, str(folder)], check=True)
    return folder


def pack(project: Path, store: Path, name: str, kind: ArchiveFormat) -> None:
    """Pack with makemar; the directory's weights are links."""
    spec = ArchiveSpec(
        model_name=name,
        version="1.0",
        handler="handler.py",
        model_file=Path("network.py"),
        serialized_file=Path("weights.pth"),
        base=project,
    )
    link = kind is ArchiveFormat.DIRECTORY
    target = store / f"{name}{kind.suffix}"
    write_archive(plan_archive(spec), target, archive_format=kind, link=link)


def pack_theirs(project: Path, store: Path, name: str, temporary: Path) -> None:
    """Pack with torch-model-archiver as most people do."""
    words = f"--model-name {name} --version 1.0 --handler handler.py --model-file network.py"
    program = Path(sys.executable).with_name("torch-model-archiver")
    subprocess.run(
        [program, *words.split(), "--serialized-file", "weights.pth", "--export-path", store],
        cwd=project,
        env={**os.environ, "TMPDIR": str(temporary)},
        check=True,
    )


def prepare(folder: Path) -> tuple[Path, dict[str, tuple[str, int]]]:
    """Fill a model store; return it, and each model's archive and width by its title."""
    store, staging = folder / "store", folder / "staging"
    store.mkdir()
    staging.mkdir()
    ours = lay_out(folder / "ours", WIDTHS["big"], OURS)
    theirs = lay_out(folder / "theirs", WIDTHS["big"], THEIRS)
    tiny = lay_out(folder / "tiny", WIDTHS["tiny"], OURS)
    pack_theirs(theirs, store, "old", staging)
    shutil.rmtree(theirs)
    pack(ours, store, "new", ArchiveFormat.MAR)
    pack(ours, store, "folder", ArchiveFormat.DIRECTORY)
    pack(tiny, store, "tiny", ArchiveFormat.DIRECTORY)
    return store, {
        "torch-model-archiver, default .mar": ("old.mar", WIDTHS["big"]),
        "make-mar, .mar": ("new.mar", WIDTHS["big"]),
        "make-mar, directory": ("folder", WIDTHS["big"]),
        "tiny model, directory": ("tiny", WIDTHS["tiny"]),
    }


def start(server: TorchServe, archive: str, width: int) -> tuple[float, float]:
    """Register, ask once and remove; return the seconds to READY and to the answer."""
    body = str([0.0] * width).encode()
    os.sync()
    started = time.perf_counter()
    model = server.management.register(archive)
    ready = time.perf_counter()
    reply = server.inference.predict(model.name, body, content_type="application/json")
    answered = time.perf_counter()
    if reply.status != 200:
        sys.exit(f"{archive} answered {reply.status}: {reply.body!r}")
    server.management.unregister(model.name)
    return ready - started, answered - started


def show(seconds: Mapping[str, list[tuple[float, float]]]) -> None:
    """Print each model's medians, and its single first answers."""
    print("cold start with a state dict of 512 MB: registration to READY, and to the first answer")
    for name, taken in seconds.items():
        ready, answered = (statistics.median(each) for each in zip(*taken, strict=True))
        times = " ".join(f"{answer:.2f}" for _, answer in taken)
        print(f"  {name:36} {ready:6.2f} s {answered:6.2f} s   ({times})")


def ratio(seconds: Mapping[str, list[tuple[float, float]]], name: str, other: str) -> float:
    """Return the median of the rounds' ratios, name / other, to the first answer."""
    pairs = zip(seconds[name], seconds[other], strict=True)
    return statistics.median(a[1] / b[1] for a, b in pairs)


def main() -> None:
    """Register each in turn, round after round."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write, on a disk with 3 GiB free")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as temporary:
        folder = Path(temporary)
        if shutil.disk_usage(folder).free < 3 << 30:
            sys.exit(f"{folder} has less than 3 GiB free; name another --folder")
        store, models = prepare(folder)
        config = replace(load_profile("development"), model_store=str(store))
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
        with TorchServe(config=config, free_ports=True) as server:
            start(server, *models["tiny model, directory"])  # the server's own first time
            for _ in range(chosen.rounds):
                for name, model in models.items():
                    seconds[name].append(start(server, *model))
    show(seconds)
    old, mar, directory, tiny = models
    faster = 1 / ratio(seconds, mar, old)
    verdict = "met" if faster >= 2.5 else "SHORT"
    print(f"  .mar beside the default one, at least 2.5 times faster: {faster:.2f}  {verdict}")
    slower = ratio(seconds, directory, tiny)
    verdict = "met" if slower <= 1.3 else "SHORT"
    print(f"  directory beside a tiny model, at most 1.3 times: {slower:.2f}  {verdict}")


if __name__ == "__main__":
    main()
