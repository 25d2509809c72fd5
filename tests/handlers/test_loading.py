"""Every format that models come in, loaded and answering; what cannot be loaded is named."""

import re
import subprocess
import sys
import textwrap
import warnings

import pytest
import torch

from makemar.handlers import BaseHandler, HandlerSettings, LoadError
from makemar.handlers.loading import load_model
from makemar.handlers.testing import ask, load

NETWORK = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(x)
"""
# torch's compiler imports parts of torch that torch itself deprecates.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"),
]
ROWS = [{"body": [1.0, 2.0, 3.0]}, {"body": [0.0, -1.0, 0.5]}]


@pytest.fixture
def network():
    torch.manual_seed(0)
    namespace = {}
    exec(NETWORK, namespace)
    return namespace["Net"]().eval()


@pytest.fixture
def expected(network):
    with torch.no_grad():
        return network(torch.tensor([row["body"] for row in ROWS])).tolist()


def answers(folder, name, *, model_file=False, **settings):
    model = {"serializedFile": name}
    if model_file:
        (folder / "network.py").write_text(NETWORK)
        model["modelFile"] = "network.py"
    handler = load(BaseHandler, folder, model=model, config={"handler": settings})
    replies = ask(handler, ROWS)
    assert [reply.status for reply in replies] == [200, 200]
    return [reply.json() for reply in replies]


def close(got, expected, tolerance=1e-6):
    return all(
        row == pytest.approx(want, rel=tolerance, abs=tolerance)
        for row, want in zip(got, expected, strict=True)
    )


def test_state_dict_with_model_file(tmp_path, network, expected):
    torch.save(network.state_dict(), tmp_path / "net.pth")
    assert close(answers(tmp_path, "net.pth", model_file=True), expected)


def test_an_old_state_dict_that_cannot_be_mapped(tmp_path, network, expected):
    torch.save(network.state_dict(), tmp_path / "net.pth", _use_new_zipfile_serialization=False)
    assert close(answers(tmp_path, "net.pth", model_file=True), expected)


@pytest.mark.parametrize("name", ["net.pt", "net.pth"])
def test_torchscript(tmp_path, network, expected, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(network, torch.zeros(2, 3)).save(tmp_path / name)
    assert close(answers(tmp_path, name), expected)


def test_safetensors(tmp_path, network, expected):
    from safetensors.torch import save_file

    save_file(network.state_dict(), tmp_path / "net.safetensors")
    assert close(answers(tmp_path, "net.safetensors", model_file=True), expected)


def write_shards(folder, network):
    import json

    from safetensors.torch import save_file

    state = network.state_dict()
    shards = {name: f"net-{i}.safetensors" for i, name in enumerate(sorted(state))}
    for name, shard in shards.items():
        save_file({name: state[name]}, folder / shard)
    (folder / "net.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    return shards


def test_sharded_safetensors(tmp_path, network, expected):
    write_shards(tmp_path, network)
    assert close(answers(tmp_path, "net.safetensors.index.json", model_file=True), expected)


def test_a_missing_shard_is_named(tmp_path, network):
    shards = write_shards(tmp_path, network)
    (tmp_path / shards["linear.bias"]).unlink()
    with pytest.raises(LoadError, match=shards["linear.bias"]):
        answers(tmp_path, "net.safetensors.index.json", model_file=True)


@pytest.fixture
def exported(network):
    batch = torch.export.Dim("batch", min=1, max=64)
    return torch.export.export(network, (torch.zeros(2, 3),), dynamic_shapes=({0: batch},))


def test_exported_program(tmp_path, exported, expected):
    torch.export.save(exported, tmp_path / "net.pt2")
    assert close(answers(tmp_path, "net.pt2"), expected)


def test_aot_inductor_package(tmp_path, exported, expected):
    torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "net.pt2"))
    assert close(answers(tmp_path, "net.pt2"), expected)


@pytest.fixture
def onnx_file(tmp_path, network):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight, bias = (tensor.detach().numpy() for tensor in network.parameters())
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    return "net.onnx"


def test_onnx(tmp_path, onnx_file, expected):
    assert close(answers(tmp_path, onnx_file, threads=1), expected)


def test_a_pickled_network_only_when_the_settings_ask_for_it(tmp_path):
    torch.save(torch.nn.Linear(3, 2), tmp_path / "net.pt")
    with pytest.raises(LoadError, match="unsafe_pickle: true"):
        answers(tmp_path, "net.pt")
    assert answers(tmp_path, "net.pt", unsafe_pickle=True)


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        ({"dtype": "bfloat16"}, 2e-2),
        ({"dtype": "float16"}, 2e-3),
        ({"quantize": "int8"}, 3e-2),
        ({"compile": "default"}, 1e-6),
        ({"channels_last": True}, 1e-6),
        ({"threads": 1}, 1e-6),
    ],
    ids=str,
)
def test_a_setting_changes_how_the_model_runs_not_what_it_says(
    tmp_path, network, expected, settings, tolerance
):
    torch.save(network.state_dict(), tmp_path / "net.pth")
    assert close(answers(tmp_path, "net.pth", model_file=True, **settings), expected, tolerance)


def test_the_settings_reach_the_model(tmp_path, network):
    (tmp_path / "network.py").write_text(NETWORK)
    torch.save(network.state_dict(), tmp_path / "net.pth")
    model = {"modelFile": "network.py", "serializedFile": "net.pth"}
    half = load(BaseHandler, tmp_path, model=model, config={"handler": {"dtype": "bfloat16"}})
    assert half.model.linear.weight.dtype == torch.bfloat16
    assert not half.model.training
    int8 = load(BaseHandler, tmp_path, model=model, config={"handler": {"quantize": "int8"}})
    assert int8.model.linear.weight().dtype == torch.qint8


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"dtype": "float64"}, "handler.dtype is 'float64', not one of float32"),
        ({"quantize": "int4"}, "handler.quantize is 'int4', not one of int8"),
        ({"compile": "fast"}, "handler.compile is 'fast'"),
        ({"decode_threads": 0}, "handler.decode_threads is 0, it must be at least 1"),
        ({"max_padding_waste": 1.5}, "handler.max_padding_waste is 1.5"),
        ({"warm_up": True}, "did you mean warmup?"),
        ({"max_samples": "many"}, "handler.max_samples is 'many', not int"),
        ({"padding": 8}, "handler.padding is not a setting"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(tmp_path, network, settings, told):
    torch.save(network.state_dict(), tmp_path / "net.pth")
    with pytest.raises(LoadError, match=re.escape(told)):
        answers(tmp_path, "net.pth", model_file=True, **settings)


CHANGES = [
    {"dtype": "bfloat16"},
    {"dtype": "float16"},
    {"channels_last": True},
    {"quantize": "int8"},
    {"compile": "default"},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_program_that_is_fixed_refuses_to_be_changed(tmp_path, exported, change):
    torch.export.save(exported, tmp_path / "net.pt2")
    with pytest.raises(LoadError, match=rf"handler\.{next(iter(change))} cannot change a fixed"):
        answers(tmp_path, "net.pt2", **change)


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_an_onnx_model_refuses_to_be_changed(tmp_path, onnx_file, change):
    told = rf"handler\.{next(iter(change))} cannot change a fixed program \(OnnxModel\)"
    with pytest.raises(LoadError, match=told):
        answers(tmp_path, onnx_file, **change)


# -- devices ---------------------------------------------------------------------------------------

MAKES_TENSORS = NETWORK.replace(
    "return self.linear(x)", "return self.linear(x) + torch.arange(2, device=x.device)"
)
META = torch.device("meta")


def export(path, device):
    namespace = {}
    exec(MAKES_TENSORS, namespace)
    network = namespace["Net"]().to(device)
    torch.export.save(torch.export.export(network, (torch.zeros(2, 3, device=device),)), path)


def load_on(device, folder, name):
    return load_model(folder, {"serializedFile": name}, device, HandlerSettings())


def test_an_exported_program_moves_to_the_device_that_it_is_to_run_on(tmp_path):
    pytest.importorskip("torch.export.passes")
    export(tmp_path / "net.pt2", "cpu")
    program = load_on(META, tmp_path, "net.pt2")
    assert {tensor.device for tensor in program.state_dict().values()} == {META}
    assert program(torch.zeros(2, 3, device=META)).device == META


def test_a_program_that_cannot_leave_its_device_is_named_with_both(tmp_path):
    export(tmp_path / "net.pt2", META)
    with pytest.raises(LoadError, match=r"^net.pt2 was exported on meta and .* cpu"):
        load_on(torch.device("cpu"), tmp_path, "net.pt2")


def test_a_torch_that_moves_no_program_says_where_it_has_to_be_exported(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.export.passes", None)
    export(tmp_path / "net.pt2", "cpu")
    assert load_on(torch.device("cpu"), tmp_path, "net.pt2")
    with pytest.raises(LoadError, match="exported on cpu and is to run on meta; export it there"):
        load_on(META, tmp_path, "net.pt2")


def test_a_compiled_package_for_another_device_is_refused_with_both(tmp_path, exported):
    torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "net.pt2"))
    with pytest.raises(LoadError, match=r"^net.pt2 was compiled for cpu and is to run on meta"):
        load_on(META, tmp_path, "net.pt2")


# -- model files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (None, "network.py: the model file named in the manifest is not in the archive"),
        ("import no_such_package\n", "network.py imports no_such_package, which is not there"),
        ("import no.such_package\n", "network.py imports no, which is not there"),
        ("def broken(:\n", "network.py cannot be read: invalid syntax (network.py, line 1)"),
        ("", "network.py: expected one torch.nn.Module class, found none"),
        (
            NETWORK.replace("__init__(self)", "__init__(self, size, *rest, depth=2, width)"),
            "network.py: Net needs size, width to be built; give them defaults",
        ),
    ],
)
@pytest.mark.parametrize("weights", [{}, {"serializedFile": "net.pth"}], ids=["", "weights"])
def test_a_model_file_that_makes_no_network_is_named(tmp_path, network, source, told, weights):
    torch.save(network.state_dict(), tmp_path / "net.pth")
    if source is not None:
        (tmp_path / "network.py").write_text(source)
    with pytest.raises(LoadError, match=f"^{re.escape(told)}"):
        load(BaseHandler, tmp_path, model={"modelFile": "network.py", **weights})


# -- memory ----------------------------------------------------------------------------------------

PEAK = """
    import resource, sys
    from pathlib import Path
    import torch
    from makemar.handlers import BaseHandler
    from makemar.handlers.testing import ask, load

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    # Once with a small model, so that libraries are loaded before the measurement.
    folder = Path(sys.argv[1])
    model = {"modelFile": "network.py", "serializedFile": "weights.pth"}
    config = {"handler": {"device": "cpu"}}
    before = peak()
    handler = load(BaseHandler, folder, model=model, config=config)
    assert ask(handler, [{"body": [0.0] * 4096}])[0].status == 200
    print((peak() - before) / (folder / "weights.pth").stat().st_size)
"""


def test_weights_are_in_memory_once(tmp_path):
    (tmp_path / "network.py").write_text(
        NETWORK.replace(
            "torch.nn.Linear(3, 2)",
            "torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(4)))",
        )
    )
    state = {}
    for i in range(4):
        state[f"linear.{i}.weight"] = torch.zeros(4096, 4096)
        state[f"linear.{i}.bias"] = torch.zeros(4096)
    torch.save(state, tmp_path / "weights.pth")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PEAK), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) < 1.2


# -- warm-up ---------------------------------------------------------------------------------------


class Warm(BaseHandler):
    """Shows which batch sizes it was run with."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def examples(self):
        return [torch.zeros(3)]

    def forward(self, batch):
        self.sizes.append(len(batch))
        return super().forward(batch)


def test_a_model_is_warm_for_every_planned_batch_size(tmp_path, network, monkeypatch, caplog):
    from makemar.handlers.testing import Context

    (tmp_path / "network.py").write_text(NETWORK)
    torch.save(network.state_dict(), tmp_path / "net.pth")
    model = {"modelFile": "network.py", "serializedFile": "net.pth"}
    monkeypatch.syspath_prepend(tmp_path)
    handler = Warm()
    with caplog.at_level("INFO"):
        handler.initialize(Context(model_dir=tmp_path, model=model, config={}, batch_size=6))
    del sys.modules["network"]
    assert handler.sizes == [1, 2, 4, 6]
    assert "warmup batch=6 first_call_ms=" in caplog.text


class WarmAndLong(Warm):
    """Its example has a length, as texts and recordings do."""

    def length(self, sample):
        return 3


@pytest.mark.parametrize(
    ("kind", "settings", "sizes"),
    [
        (Warm, {}, [1, 2, 4, 8, 16]),
        (Warm, {"max_forward_batch": 5}, [1, 2, 4, 5]),
        (Warm, {"max_forward_batch": 64}, [1, 2, 4, 8, 16]),
        (Warm, {"max_tokens": 1}, [1, 2, 4, 8, 16]),  # tokens are counted where there is a length
        (WarmAndLong, {"max_tokens": 20}, [1, 2, 4, 6]),
        (WarmAndLong, {"max_tokens": 2}, [1]),
        (WarmAndLong, {"max_tokens": 20, "max_forward_batch": 3}, [1, 2, 3]),
    ],
)
def test_the_warm_up_runs_no_forward_that_the_settings_never_would(
    tmp_path, network, monkeypatch, kind, settings, sizes
):
    from makemar.handlers.testing import Context, ask

    (tmp_path / "network.py").write_text(NETWORK)
    torch.save(network.state_dict(), tmp_path / "net.pth")
    model = {"modelFile": "network.py", "serializedFile": "net.pth"}
    monkeypatch.syspath_prepend(tmp_path)
    handler = kind()
    config = {"handler": settings}
    handler.initialize(Context(model_dir=tmp_path, model=model, config=config, batch_size=16))
    del sys.modules["network"]
    assert handler.sizes == sizes
    handler.sizes.clear()
    assert {a.status for a in ask(handler, [{"body": [1.0, 2.0, 3.0]}] * 16)} == {200}
    assert max(handler.sizes) == sizes[-1]


def test_an_example_that_the_model_fails_on_is_a_load_failure(tmp_path, network):
    class Wrong(Warm):
        def examples(self):
            return [torch.zeros(5)]

    (tmp_path / "network.py").write_text(NETWORK)
    torch.save(network.state_dict(), tmp_path / "net.pth")
    model = {"modelFile": "network.py", "serializedFile": "net.pth"}
    with pytest.raises(LoadError, match="warm-up with batch size 1 failed"):
        load(Wrong, tmp_path, model=model)
    assert load(Wrong, tmp_path, model=model, config={"handler": {"warmup": False}}).initialized


# -- networks as people write them -----------------------------------------------------------------

UNREGISTERED = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.scale = torch.tensor(3.0)
        self.table = torch.arange(4).numpy()
        self.register_buffer("shift", torch.full((2,), 5.0), persistent=False)
        torch.nn.init.trunc_normal_(self.linear.weight, std=0.02)

    def forward(self, x):
        return self.linear(x) * self.scale + self.shift + float(self.table[1])
"""


def load_source(folder, source, state):
    (folder / "network.py").write_text(source)
    torch.save(state, folder / "net.pth")
    model = {"modelFile": "network.py", "serializedFile": "net.pth"}
    return load(BaseHandler, folder, model=model)


def test_what_is_not_in_the_state_dict_keeps_the_value_it_was_built_with(tmp_path, network):
    handler = load_source(tmp_path, UNREGISTERED, network.state_dict())
    with torch.no_grad():
        want = network(torch.tensor([[1.0, 2.0, 3.0]])) * 3 + 5 + 1
    (answer,) = ask(handler, ROWS[:1])
    assert answer.json() == pytest.approx(want[0].tolist(), rel=1e-6)


def test_a_checkpoint_in_half_precision_does_not_change_the_networks(tmp_path, network):
    half = {name: tensor.half() for name, tensor in network.state_dict().items()}
    handler = load_source(tmp_path, NETWORK, half)
    assert handler.model.linear.weight.dtype == torch.float32
    assert ask(handler, ROWS)[0].status == 200


@pytest.mark.parametrize(
    "source",
    [
        'import torch\nraise RuntimeError("at import")\n',
        NETWORK.replace("super().__init__()", 'raise RuntimeError("in the constructor")'),
        NETWORK.replace("super().__init__()", 'raise MemoryError("in the constructor")'),
    ],
)
def test_no_runtime_error_leaves_initialize(tmp_path, network, source):
    # TorchServe would keep the model registered, without workers, and answer 409 to a retry.
    with pytest.raises(LoadError, match=r"at import|in the constructor"):
        load_source(tmp_path, source, network.state_dict())


def test_a_subclass_of_ones_own_fails_cleanly_too(tmp_path):
    class Own(BaseHandler):
        def initialize(self, context):
            raise RuntimeError("own")

    with pytest.raises(LoadError, match="RuntimeError: own"):
        load(Own, tmp_path)


def test_no_random_number_is_drawn_for_weights_that_the_file_holds(tmp_path, network):
    source = NETWORK.replace(
        "self.linear = torch.nn.Linear(3, 2)",
        "self.linear = torch.nn.Linear(3, 2)\n"
        "        self.conv = torch.nn.Conv2d(1, 1, 3)\n"
        "        self.embed = torch.nn.Embedding(4, 2)\n"
        "        torch.nn.init.xavier_uniform_(self.linear.weight)",
    )
    state = network.state_dict()
    state |= {f"conv.{k}": v for k, v in torch.nn.Conv2d(1, 1, 3).state_dict().items()}
    state |= {f"embed.{k}": v for k, v in torch.nn.Embedding(4, 2).state_dict().items()}
    before = torch.get_rng_state()
    handler = load_source(tmp_path, source, state)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(handler.model.embed.weight, state["embed.weight"])


def test_what_is_computed_from_a_random_parameter_has_its_values(tmp_path, network):
    source = NETWORK.replace(
        "self.linear = torch.nn.Linear(3, 2)",
        "self.linear = torch.nn.Linear(3, 2)\n"
        "        torch.nn.init.normal_(self.linear.weight, mean=100.0, std=0.001)\n"
        "        self.level = (self.linear.weight.detach() * 1).mean()\n"
        "        torch.nn.init.trunc_normal_(self.linear.weight, a=-1.0, b=1.0)",
    )
    handler = load_source(tmp_path, source, network.state_dict())
    assert float(handler.model.level) == pytest.approx(100, abs=0.1)
    assert torch.equal(handler.model.linear.weight, network.linear.weight)


# What stays beside the state dict, made from `self.linear.weight`, drawn around 100.
KEPT = {
    "data": "self.linear.weight.data.clone()",
    "transposed": "self.linear.weight.T.clone().T",
    "transposed matrix": "self.linear.weight.mT.clone().mT",
    "in a list": "torch.stack([self.linear.weight])[0].detach()",
    "named": "torch.clone(input=self.linear.weight).detach()",
    "another's data": "self.linear.bias.new_tensor(self.linear.weight.detach())",
    "iterated": "torch.stack([row.detach().clone() for row in self.linear.weight])",
    "numpy": "torch.tensor(self.linear.weight.detach().numpy())",
    "copied into": "torch.nn.Parameter(torch.empty(2, 3)).data.copy_(self.linear.weight)",
    "copied": "copy.deepcopy(self.linear).weight.detach()",
    "memory of a tensor": "memory.clone()",
}


def kept(value):
    return NETWORK.replace("import torch\n", "import copy\nimport torch\n").replace(
        "self.linear = torch.nn.Linear(3, 2)",
        "self.linear = torch.nn.Linear(3, 2)\n"
        "        memory = torch.empty(2, 3)\n"
        "        self.linear.weight = torch.nn.Parameter(memory)\n"
        "        torch.nn.init.normal_(self.linear.weight, mean=100.0, std=0.001)\n"
        f'        self.register_buffer("kept", {value}, persistent=False)',
    )


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning")
@pytest.mark.parametrize("value", KEPT.values(), ids=KEPT)
def test_a_tensor_outside_the_state_dict_is_never_memory_that_was_not_written_to(
    tmp_path, network, value
):
    handler = load_source(tmp_path, kept(value), network.state_dict())
    assert handler.model.kept.flatten().tolist() == pytest.approx([100] * 6, abs=0.1)
    assert torch.equal(handler.model.linear.weight, network.linear.weight)


def test_a_parameter_that_no_state_dict_knows_has_its_values(tmp_path, network):
    source = NETWORK.replace(
        "self.linear = torch.nn.Linear(3, 2)",
        "self.linear = torch.nn.Linear(3, 2)\n"
        "        self.hidden = [torch.nn.Parameter(torch.empty(50))]\n"
        "        torch.nn.init.normal_(self.hidden[0], mean=100.0, std=0.001)",
    )
    handler = load_source(tmp_path, source, network.state_dict())
    assert handler.model.hidden[0].tolist() == pytest.approx([100] * 50, abs=0.1)


@pytest.mark.parametrize("view", ["self.linear.weight", "self.linear.weight.data[:]"])
def test_who_keeps_a_parameter_or_a_view_of_it_sees_the_files_values(tmp_path, network, view):
    source = NETWORK.replace(
        "self.linear = torch.nn.Linear(3, 2)",
        f"self.linear = torch.nn.Linear(3, 2)\n        self.beside = ({view},)",
    )
    handler = load_source(tmp_path, source, network.state_dict())
    assert torch.equal(handler.model.beside[0], network.linear.weight)


@pytest.mark.parametrize(
    ("seeding", "generator"),
    [("torch.manual_seed(7)", "None"), ("g = torch.Generator().manual_seed(7)", "g")],
)
def test_a_network_that_seeds_its_numbers_gets_the_same_ones_as_in_training(
    tmp_path, network, seeding, generator
):
    source = NETWORK.replace(
        "self.linear = torch.nn.Linear(3, 2)",
        f"{seeding}\n"
        "        self.linear = torch.nn.Linear(3, 2)\n"
        f"        torch.nn.init.normal_(self.linear.weight, generator={generator})\n"
        f'        self.register_buffer("kept", torch.rand(4, generator={generator}), '
        "persistent=False)",
    )
    namespace = {}
    exec(source, namespace)
    trained = namespace["Net"]()
    torch.manual_seed(1)
    handler = load_source(tmp_path, source, network.state_dict())
    assert torch.equal(handler.model.kept, trained.kept)


def test_a_frozen_parameter_is_frozen_without_being_read(tmp_path, network):
    source = NETWORK.replace(
        "self.linear = torch.nn.Linear(3, 2)",
        "self.linear = torch.nn.Linear(3, 2)\n"
        "        self.linear.weight.requires_grad_(False)\n"
        "        self.linear.bias.requires_grad = False\n"
        "        assert not self.linear.weight.requires_grad",
    )
    before = torch.get_rng_state()
    handler = load_source(tmp_path, source, network.state_dict())
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(parameter.requires_grad for parameter in handler.model.parameters())
