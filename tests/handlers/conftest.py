"""Small models on disk, and the classic picture transforms to compare with."""

import shutil
from pathlib import Path

import pytest
import torch

NETWORK = """
import torch
from torch import nn

class Doubler(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        if torch.isnan(x).any():
            raise ValueError("secret: the model met a NaN")
        return x * self.factor
"""


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    """An unpacked archive: a network that multiplies by the 2.0 in its state dict."""
    (tmp_path / "network.py").write_text(NETWORK)
    torch.save({"factor": torch.tensor(2.0)}, tmp_path / "weights.pth")
    return tmp_path


@pytest.fixture
def doubler() -> dict[str, str]:
    """The manifest's model section for `model_dir`."""
    return {"modelName": "doubler", "modelFile": "network.py", "serializedFile": "weights.pth"}


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small networks that stand behind the families."""
    folder = tmp_path_factory.mktemp("networks")
    for source in (Path(__file__).parent / "networks").glob("*.py"):
        shutil.copyfile(source, folder / source.name)
    return folder


@pytest.fixture(scope="session")
def fits():
    """Hold a value against one side of what a handler says of itself."""
    import jsonschema

    def check(handler, side, value):
        schema = handler.describe()[side]
        kind = jsonschema.Draft202012Validator
        kind.check_schema(schema)
        kind(schema).validate(value)
        assert not kind(schema).is_valid({"what": ["nobody", {"says": b""}]})

    return check
