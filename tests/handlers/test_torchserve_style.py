"""Handlers written for TorchServe's BaseHandler, its import line changed and nothing else.

Each is run twice behind TorchServe's own `Service.predict`, once with either base class, on the
same requests; the replies must say the same. Then one request is made to fail: TorchServe's loses
the batch, makemar's only that request.
"""

import importlib
import json
import struct
import sys

import pytest
import torch

THEIRS = "from ts.torch_handler.base_handler import BaseHandler"
OURS = "from makemar.handlers import BaseHandler"

NETWORK = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x, scale=None):
        if torch.isnan(x).any():
            raise ValueError("NaN")
        out = self.linear(x)
        return out if scale is None else out * scale
"""

ARGMAX = f"""
import torch
{THEIRS}

class Digits(BaseHandler):
    def preprocess(self, requests):
        rows = []
        for request in requests:
            payload = request.get("data")
            if payload is None:
                payload = request.get("body")
            rows.append(torch.tensor(payload["pixels"], dtype=torch.float32))
        return torch.stack(rows).to(self.device)

    def postprocess(self, scores):
        return scores.argmax(1).tolist()
"""

OWN_INITIALIZE = f"""
import json, os
import torch
{THEIRS}

class Named(BaseHandler):
    def __init__(self):
        super(Named, self).__init__()
        self.initialized = False

    def initialize(self, context):
        self.manifest = context.manifest
        properties = context.system_properties
        folder = properties.get("model_dir")
        self.device = torch.device("cpu" if properties.get("gpu_id") is None else "cuda")
        from network import Net
        self.model = Net()
        weights = os.path.join(folder, self.manifest["model"]["serializedFile"])
        self.model.load_state_dict(torch.load(weights, weights_only=True))
        self.model.to(self.device).eval()
        with open(os.path.join(folder, "index_to_name.json")) as file:
            self.mapping = json.load(file)
        self.initialized = True

    def preprocess(self, data):
        return torch.tensor([row["body"]["pixels"] for row in data])

    def postprocess(self, data):
        probabilities = torch.softmax(data, dim=1)
        names = [self.mapping[str(i)] for i in range(4)]
        return [dict(zip(names, row)) for row in probabilities.tolist()]
"""

OWN_HANDLE = f"""
import torch
{THEIRS}

class Whole(BaseHandler):
    def handle(self, data, context):
        self.context = context
        batch = torch.tensor([row["body"]["pixels"] for row in data])
        with torch.no_grad():
            scores = self.model(batch)
        for index in range(len(data)):
            context.set_response_content_type(index, "text/plain")
        return [f"class {{int(i)}}" for i in scores.argmax(1)]
"""

SUPER_STAGES = f"""
import torch
{THEIRS}

class Layered(BaseHandler):
    def initialize(self, ctx):
        super().initialize(ctx)
        self.factor = self.model_yaml_config["handler"]["factor"]

    def preprocess(self, data):
        return torch.as_tensor([row["body"]["pixels"] for row in data], device=self.device)

    def inference(self, data, *args, **kwargs):
        return super().inference(data, self.factor)

    def postprocess(self, data):
        return [[round(value, 4) for value in row] for row in super().postprocess(data)]
"""

DICTS = f"""
import torch
{THEIRS}

class Detector(BaseHandler):
    threshold = 0.2

    def preprocess(self, data):
        self.sizes = [len(row["body"]["pixels"]) for row in data]
        return {{"x": torch.tensor([row["body"]["pixels"] for row in data])}}

    def inference(self, data, *args, **kwargs):
        with torch.no_grad():
            return self.model(**data)

    def postprocess(self, data):
        replies = []
        for size, row in zip(self.sizes, torch.sigmoid(data)):
            scores = [round(score, 4) for score in row.tolist()]
            kept = [i for i, score in enumerate(scores) if score > self.threshold]
            replies.append([{{"class": i, "score": scores[i], "of": size}} for i in kept])
        return replies
"""

REQUEST_IDS = f"""
import torch
{THEIRS}

class Echo(BaseHandler):
    def preprocess(self, data):
        self.rows = len(data)
        return torch.stack([torch.tensor(row["body"]["pixels"]) for row in data])

    def postprocess(self, data):
        replies = []
        for index in range(self.rows):
            request_id = self.context.get_request_id(index)
            self.context.set_response_header(index, "x-request", request_id)
            replies.append({{"id": request_id, "sum": round(float(data[index].sum()), 3)}})
        return replies
"""

SKIPS_INIT = f"""
import torch
{THEIRS}

class Careless(BaseHandler):
    def __init__(self):
        self._context = None

    def initialize(self, context):
        self._context = context
        from network import Net
        self.model = Net().eval()
        self.model.load_state_dict(torch.load(
            context.system_properties["model_dir"] + "/weights.pth", weights_only=True))

    def handle(self, data, context):
        rows = torch.tensor([row["body"]["pixels"] for row in data])
        return self.model(rows).tolist()
"""

STYLES = {
    "argmax": ARGMAX,
    "own initialize": OWN_INITIALIZE,
    "own handle": OWN_HANDLE,
    "super stages": SUPER_STAGES,
    "dicts": DICTS,
    "request ids": REQUEST_IDS,
    "skips __init__": SKIPS_INIT,
}
CONFIG = "handler:\n  factor: 2.0\n"


@pytest.fixture
def archive(tmp_path):
    torch.manual_seed(3)
    (tmp_path / "network.py").write_text(NETWORK)
    state = {f"linear.{k}": v for k, v in torch.nn.Linear(3, 4).state_dict().items()}
    torch.save(state, tmp_path / "weights.pth")
    (tmp_path / "index_to_name.json").write_text(json.dumps({str(i): f"n{i}" for i in range(4)}))
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path


def start(archive, source, monkeypatch):
    """Load a handler as TorchServe's worker does."""
    from ts.service import Service

    (archive / "style.py").write_text(source)
    monkeypatch.syspath_prepend(archive)
    for name in ("style", "network"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    module = importlib.import_module("style")
    (kind,) = [v for v in vars(module).values() if getattr(v, "__module__", "") == "style"]
    handler = kind()
    model = {
        "modelName": "m",
        "modelFile": "network.py",
        "serializedFile": "weights.pth",
        "configFile": "config.yaml",
    }
    service = Service("m", str(archive), {"model": model}, handler.handle, None, 8)
    handler.initialize(service.context)
    service.set_cl_socket(None)
    for name in ("style", "network"):
        sys.modules.pop(name, None)

    class Silent:
        request_ids = None

        def add_time(self, *args, **kwargs):
            pass

    service.context.metrics = Silent()
    return service


def batch(rows):
    return [
        {
            "requestId": f"request-{i}".encode(),
            "headers": [],
            "parameters": [{"name": "body", "value": row, "contentType": "application/json"}],
        }
        for i, row in enumerate(rows)
    ]


def parse(message):
    """Read the worker's binary reply: code, message, then per request id, type, status, body."""
    data, place = bytes(message), 0

    def number():
        nonlocal place
        (value,) = struct.unpack_from("!i", data, place)
        place += 4
        return value

    def text():
        nonlocal place
        length = number()
        place += max(length, 0)
        return data[place - max(length, 0) : place]

    number(), text()
    replies = {}
    while True:
        length = number()
        if length == -1:
            return replies
        place += length
        request_id = data[place - length : place].decode()
        content_type, status, _ = text(), number(), text()
        headers = {text().decode(): text().decode() for _ in range(number())}
        replies[request_id] = (status, content_type.decode(), headers, text())


def said(body):
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


ROWS = [{"pixels": [0.1 * i, -0.2, 0.3]} for i in range(8)]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_import_line_is_all_that_changes(archive, monkeypatch, style):
    source = STYLES[style]
    theirs = parse(start(archive, source, monkeypatch).predict(batch(ROWS)))
    ours = parse(start(archive, source.replace(THEIRS, OURS), monkeypatch).predict(batch(ROWS)))
    assert list(theirs) == list(ours)
    for name, (status, _, headers, body) in theirs.items():
        assert status == 200
        assert ours[name][0] == 200
        assert said(ours[name][3]) == said(body)
        for header, value in headers.items():
            assert ours[name][2][header] == value


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("bad", [{"pixels": [float("nan"), 0, 0]}, {"pixels": "none"}, "text", {}])
def test_a_bad_row_costs_its_neighbours_nothing_any_more(archive, monkeypatch, style, bad):
    service = start(archive, STYLES[style].replace(THEIRS, OURS), monkeypatch)
    good = parse(service.predict(batch(ROWS)))
    mixed = parse(service.predict(batch([*ROWS[:5], bad, *ROWS[6:]])))
    for name, reply in mixed.items():
        if name == "request-5":
            assert 400 <= reply[0] < 600
            assert said(reply[3])["request_id"] == "request-5"
        else:
            assert reply == good[name]
