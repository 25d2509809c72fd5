"""The harness behaves as TorchServe's own context does."""

from pathlib import Path

import pytest

from makemar.handlers.testing import Context, ask


@pytest.fixture(params=["makemar", "torchserve"])
def context(request):
    headers = [{"X-A": "1"}, {}]
    if request.param == "makemar":
        return Context(model_dir=Path("/m"), model={}, config={}, headers=headers, batch_size=2)
    from ts.context import Context as Real
    from ts.context import RequestProcessor

    real = Real("model", "/m", {"model": {}}, 2, None, "0.12.0", model_yaml_config={})
    real.request_ids = {0: "request-0", 1: "request-1"}
    real.request_processor = [RequestProcessor(given) for given in headers]
    return real


def test_both_contexts_answer_alike(context):
    assert context.get_request_id(1) == "request-1"
    assert context.get_request_id(7) is None
    assert context.get_request_header(0, "X-A") == "1"
    assert context.get_request_header(0, "x-a") is None
    assert context.get_all_request_header(1) == {}
    assert context.get_response_status(0) == (200, None)
    context.set_response_status(404, "Gone", 1)
    assert context.get_response_status(1) == (404, "Gone")
    context.set_all_response_status(500, "No")
    assert context.get_response_status(0) == (500, "No")
    context.set_response_content_type(0, "text/plain")
    assert context.get_response_content_type(0) == "text/plain"
    context.get_response_headers(0).clear()
    assert context.get_response_content_type(0) is None
    assert context.system_properties["model_dir"] == "/m"
    assert context.system_properties["gpu_id"] is None


class Plain:
    """A handler without makemar: the harness runs anyone's."""

    def initialize(self, context):
        pass

    def handle(self, data, context):
        return [row.get("body", b"").decode() for row in data]


def test_any_handler_can_be_asked():
    assert [answer.body for answer in ask(Plain(), [b"a", b"b"])] == [b"a", b"b"]


def test_a_handler_that_breaks_the_contract_is_told():
    class Tuple(Plain):
        def handle(self, data, context):
            return ("x",)

    with pytest.raises(AssertionError, match="for 1 requests"):
        ask(Tuple(), [b"a"])
