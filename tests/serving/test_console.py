import pytest

from makemar.serving.console import could_not_bind, death_reason, unloaded_models

SHUTDOWN = """\
Exception in thread "Thread-0" java.util.concurrent.RejectedExecutionException: event executor
\tat org.pytorch.serve.ModelServer.stop(ModelServer.java:565)
"""
NOISE = """\
WARNING: sun.reflect.Reflection.getCallerClass is not supported. This will impact performance.
nvidia-smi not available or failed: Cannot run program "nvidia-smi": error=2, No such file
2026-12-01T11:48:48,069 [DEBUG] main org.pytorch.serve.util.ConfigManager - xpu-smi not available
"""


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (
            "Invalid configuration: Invalid binding address: 127.0.0.1\n",
            "Invalid binding address: 127.0.0.1",
        ),
        (
            "java.io.IOException: Failed to bind to address: http://127.0.0.1:28080\n"
            "\tat org.pytorch.serve.ModelServer.main(ModelServer.java:105)\n"
            "Caused by: io.netty.channel.unix.Errors$NativeIoException: bind(..) failed: Address "
            "already in use\n",
            "Failed to bind to address: http://127.0.0.1:28080 (bind(..) failed: Address already "
            "in use)",
        ),
        (
            "com.google.gson.JsonSyntaxException: java.io.EOFException: End of input at line 1\n"
            "\tat com.google.gson.Gson.fromJson(Gson.java:1236)\n"
            "Caused by: java.io.EOFException: End of input at line 1\n",
            "java.io.EOFException: End of input at line 1",
        ),
        (
            "Error occurred during initialization of VM\nToo small maximum heap\n",
            "Error occurred during initialization of VM: Too small maximum heap",
        ),
        ("", ""),
    ],
)
def test_java_s_own_reason_is_found_among_what_it_prints(printed: str, reason: str):
    assert death_reason(NOISE + printed + SHUTDOWN) == reason


def test_only_a_port_that_is_taken_is_told_as_one():
    bound = "java.io.IOException: Failed to bind to address: http://127.0.0.1:28080\n"
    grpc = "java.io.IOException: Failed to bind to address /127.0.0.1:7070\n"
    assert could_not_bind(NOISE + bound + SHUTDOWN)
    assert could_not_bind(NOISE + grpc)
    assert not could_not_bind(NOISE + SHUTDOWN)
    assert not could_not_bind("2026-12-01T11:48:48 my model: Failed to bind the book\n")


def test_an_archive_that_a_start_left_out_is_found_with_its_reason():
    log = (
        "2026-12-01T11:49:08,600 [WARN ] main org.pytorch.serve.ModelServer - Failed to load "
        "model: nope.mar\n"
        "org.pytorch.serve.archive.model.ModelNotFoundException: Model not found at: nope.mar\n"
        "\tat org.pytorch.serve.archive.model.ModelArchive.downloadModel(ModelArchive.java:81)\n"
    )
    assert unloaded_models(log) == {"nope.mar": "Model not found at: nope.mar"}
    assert unloaded_models("Loading initial models: nope.mar\n") == {}
