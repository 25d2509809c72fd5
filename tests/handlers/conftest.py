"""Small models on disk, and the classic picture transforms to compare with."""

import runpy
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
    (folder / "tokenizer.json").write_text(words_and_letters().to_str())
    (folder / "bytes.json").write_text(single_bytes().to_str())
    return folder


def single_bytes():
    """A tokenizer whose tokens are the 256 bytes, and <end> and <poison>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {char: number for number, char in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>", "<poison>"])
    return tokenizer


def words_and_letters():
    """A tokenizer that knows a few words and spells out the others; [CLS] and [SEP] around."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = ["the", "cat", "sat", "on", "mat", "in", "a", "big", "house", "anna", "bonn", "lives"]
    letters = [chr(code) for code in range(33, 127)]
    pieces = [*special, *words, *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    # As real files do: what the file asks for would depend on neighbours and lose text.
    tokenizer.enable_padding(length=16)
    tokenizer.enable_truncation(16)
    return tokenizer


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


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with MiniLM's network, real weights and tokenizer."""
    folder = tmp_path_factory.mktemp("minilm")
    example = Path(__file__).parent.parent.parent / "examples" / "minilm"
    runpy.run_path(str(example / "assets.py"))["gather"](folder)
    shutil.copyfile(example / "network.py", folder / "network.py")
    return folder
