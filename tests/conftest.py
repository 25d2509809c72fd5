"""What several rooms test with: real pictures and the real weights of MobileNetV2."""

import os
import signal
from pathlib import Path

import pytest

# Two cores are shared by a JVM, its workers and the tests.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell starts what runs in its background deaf to Ctrl-C, and so would be what the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def photographs() -> dict[str, bytes]:
    """Real photographs by file name, from scikit-image."""
    import skimage

    folder = Path(skimage.__file__).parent / "data"
    names = ("chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg")
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture(scope="session")
def mobilenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with MobileNetV2's network, handler, real weights and class names."""
    import runpy
    import shutil

    folder = tmp_path_factory.mktemp("mobilenet")
    example = Path(__file__).parent.parent / "examples" / "mobilenet"
    runpy.run_path(str(example / "assets.py"))["gather"](folder)
    for name in ("network.py", "handler.py"):
        shutil.copyfile(example / name, folder / name)
    return folder
