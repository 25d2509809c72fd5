"""makemar's handlers beside TorchServe's own, through the same `ts.service.Service.predict`.

    OMP_NUM_THREADS=1 python benchmarks/handlers.py

Prints ratios, makemar / TorchServe: below 1 means that makemar takes less time.
"""

import io
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import torch
from service import alternate, batch_of, load_service

TINY = """
import torch

class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(x)
"""
ROWS = """
import torch
from {module} import BaseHandler

class Handler(BaseHandler):
    def preprocess(self, data):
        return torch.tensor([row["body"] for row in data])
"""
HOOKS = """
from makemar.handlers import BaseHandler

class Handler(BaseHandler):
    pass
"""
PICTURES = """
from {module} import ImageClassifier

class Handler(ImageClassifier):
    pass
"""


def folder(root: Path, name: str, network: str, state: object) -> Path:
    """Lay out an unpacked archive."""
    place = root / name
    (place / "MAR-INF").mkdir(parents=True)
    (place / "network.py").write_text(network)
    torch.save(state, place / "weights.pth")
    model = {"modelName": name, "modelFile": "network.py", "serializedFile": "weights.pth"}
    (place / "MAR-INF" / "MANIFEST.json").write_text(json.dumps({"model": model}))
    return place


def overhead(root: Path, *, numbers: int) -> None:
    """Show what a handler costs around a model that costs nothing, for bodies of some numbers.

    The hooks do more than TorchServe's handler: they check each request, open its protocol and
    keep its error to itself.
    """
    state = torch.nn.Linear(numbers, 2).state_dict()
    state = {f"linear.{key}": value for key, value in state.items()}
    network = TINY.replace("Linear(4, 2)", f"Linear({numbers}, 2)")
    place = folder(root, f"tiny{numbers}", network, state)
    theirs = load_service(place, ROWS.format(module="ts.torch_handler.base_handler"), batch_size=8)
    for name, source in (
        ("the same class, import line changed", ROWS.format(module="makemar.handlers")),
        ("decode and encode hooks", HOOKS),
    ):
        ours = load_service(place, source, batch_size=8)
        for size in (1, 8, 32):
            bodies: list[object] = [torch.rand(numbers).tolist() for _ in range(size)]
            batch = batch_of(bodies, "application/json")
            a, b, ratio = alternate(
                lambda s=ours, x=batch: s.predict(x), lambda x=batch: theirs.predict(x), rounds=1500
            )
            print(
                f"overhead  {numbers:3} numbers  batch {size:2}  {name:36} "
                f"{a / size * 1e6:6.1f} us a request, TorchServe {b / size * 1e6:6.1f} us, "
                f"ratio {ratio:.2f}"
            )


def _allow_torchserves_vision_handlers() -> None:
    """Let `ts.torch_handler.image_classifier` import without captum and torchvision's operators.

    Neither is used for a prediction: captum explains, the operators detect.
    """
    captum, attr = types.ModuleType("captum"), types.ModuleType("captum.attr")
    attr.IntegratedGradients = str  # type: ignore[attr-defined]
    sys.modules.update({"captum": captum, "captum.attr": attr})
    declared = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    globals()["_declared"] = declared


def photographs() -> list[bytes]:
    """Eight photographs as a phone sends them: JPEG, 1600 x 1200 and the like."""
    import skimage
    from PIL import Image

    data = Path(skimage.__file__).parent / "data"
    pictures = []
    for name in ("chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg"):
        picture = Image.open(data / name).convert("RGB")
        for width in (1600, 1200):
            buffer = io.BytesIO()
            height = round(width * picture.height / picture.width)
            picture.resize((width, height)).save(buffer, "JPEG", quality=90)
            pictures.append(buffer.getvalue())
    return pictures


def decoding(root: Path) -> None:
    """Show what decoding and preprocessing eight photographs costs, the model left out."""
    _allow_torchserves_vision_handlers()
    network = TINY.replace("Linear(4, 2)", "Linear(3, 10)").replace(
        "self.linear(x)", "self.linear(x.mean((2, 3)))"
    )
    state = {f"linear.{k}": v for k, v in torch.nn.Linear(3, 10).state_dict().items()}
    place = folder(root, "pictures", network, state)
    ours = load_service(place, PICTURES.format(module="makemar.handlers"), batch_size=8)
    theirs = load_service(
        place, PICTURES.format(module="ts.torch_handler.image_classifier"), batch_size=8
    )
    batch = batch_of([bytearray(picture) for picture in photographs()], "image/jpeg")
    a, b, ratio = alternate(lambda: ours.predict(batch), lambda: theirs.predict(batch), rounds=25)
    ours_ms, theirs_ms = a * 1e3, b * 1e3
    print(
        f"decoding  8 photographs {ours_ms:6.1f} ms, TorchServe {theirs_ms:6.1f} ms, "
        f"ratio {ratio:.2f}"
    )


BIG = """
import torch

class Big(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4096, 4096) for _ in range(8))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.mean(1)
"""
LOAD = """
import logging, sys, time
sys.path.insert(0, {benchmarks!r})
import torch
from pathlib import Path
from service import batch_of, load_service
logging.disable()
import {module}
folder = Path({folder!r})

def peak():
    # Not getrusage: what it tells includes the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024

before = peak()
started = time.perf_counter()
service = load_service(folder, {source!r}, batch_size=1)
reply = service.predict(batch_of([[0.0] * 4096], "application/json"))
print(time.perf_counter() - started, (peak() - before) / (folder / "weights.pth").stat().st_size)
"""


def loading(root: Path, *, rounds: int = 5) -> None:
    """Show time and peak memory of a 512 MB state dict, from its file to the first answer."""
    state = {}
    for i in range(8):
        state[f"layers.{i}.weight"] = torch.rand(4096, 4096)
        state[f"layers.{i}.bias"] = torch.rand(4096)
    place = folder(root, "big", BIG, state)
    del state
    modules = ("makemar.handlers", "ts.torch_handler.base_handler")
    seconds: tuple[list[float], list[float]] = ([], [])
    memory: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for which, module in enumerate(modules):
            source = ROWS.format(module=module)
            code = LOAD.format(
                benchmarks=str(Path(__file__).parent), module=module, folder=str(place),
                source=source,
            )  # fmt: skip
            done = subprocess.run(
                [sys.executable, "-c", code], check=True, capture_output=True, text=True
            )
            took, times_weights = map(float, done.stdout.split()[-2:])
            seconds[which].append(took)
            memory[which].append(times_weights)
    ours, theirs = (statistics.median(s) for s in seconds)
    ratio = statistics.median(a / b for a, b in zip(*seconds, strict=True))
    ours_peak, theirs_peak = (statistics.median(m) for m in memory)
    print(
        f"loading   512 MB state dict {ours:5.2f} s, TorchServe {theirs:5.2f} s, "
        f"ratio {ratio:.2f}; "
        f"peak memory {ours_peak:.2f} times the weights, TorchServe {theirs_peak:.2f}"
    )


def main() -> None:
    """Run all three."""
    with (
        Path(os.devnull).open("w") as nowhere,
        tempfile.TemporaryDirectory() as temporary,
    ):
        # As the worker logs: plain lines, everything from INFO on.
        logging.basicConfig(stream=nowhere, level=logging.INFO, format="%(message)s")
        overhead(Path(temporary), numbers=4)
        overhead(Path(temporary), numbers=784)
        decoding(Path(temporary))
        loading(Path(temporary))


if __name__ == "__main__":
    main()
