from pathlib import Path

import pytest

from makemar.serving import LogFile, ModelDescription, WorkerDescription
from makemar.serving.readiness import WorkerWatch

STAMP = "2026-12-01T11:46:05,928 [INFO ] W-9000-"


def describe(name: str = "m", version: str = "1.0") -> ModelDescription:
    """A model whose worker 9000 is not READY."""
    worker = WorkerDescription(
        id="9000", status="UNLOADING", pid=-1, memory_usage=0, start_time="", gpu=False
    )
    return ModelDescription(
        name=name,
        version=version,
        url="m.mar",
        runtime="python",
        min_workers=1,
        max_workers=1,
        batch_size=1,
        max_batch_delay=100,
        response_timeout=120,
        startup_timeout=120,
        device_type="cpu",
        loaded_at_startup=False,
        workers=(worker,),
        pending_requests=0,
        remaining_capacity=100,
    )


def failed(title: str, exception: str) -> str:
    """Write what TorchServe logs of a worker that fails to load."""
    told = f"{STAMP}{title}-stdout MODEL_LOG - "
    frame = '  File "/tmp/models/f00/handler.py", line 1, in <module>'
    lines = [told + line for line in ("Traceback (most recent call last):", frame, exception)]
    retry = f"{STAMP}{title} org.pytorch.serve.wlm.WorkerThread - Retry worker: 9000 in 1 seconds."
    return "".join(f"{line}\n" for line in (*lines, retry))


@pytest.mark.parametrize("name", ["m", "a-b c.d", "né"])
def test_a_failure_is_found_though_the_log_comes_in_pieces(tmp_path: Path, name: str):
    log = LogFile(tmp_path / "ts_log.log")
    log.path.write_text(failed(f"{name}_1.0", "ValueError: of an earlier try"))
    watch, model = WorkerWatch.from_now(log), describe(name)
    data = failed(f"{name}_1.0", "ValueError: boom").encode()
    for start in range(0, len(data) - 1, 50):
        with log.path.open("ab") as file:
            file.write(data[start : min(start + 50, len(data) - 1)])
        assert watch.failure(model) is None
    with log.path.open("ab") as file:
        file.write(data[-1:])
    found = watch.failure(model)
    assert found is not None
    assert found[0] == "ValueError: boom (handler.py line 1, in <module>)"


def test_no_byte_of_the_log_is_read_twice(tmp_path: Path):
    read: list[int] = []

    class Counted(LogFile):
        def read_on(self, mark: int) -> tuple[str, int]:
            text, after = super().read_on(mark)
            read.append(after - mark)
            return text, after

    log = Counted(tmp_path / "ts_log.log")
    watch, model = WorkerWatch.from_now(log), describe()
    for _ in range(5):
        with log.path.open("a") as file:
            file.write(f"{STAMP}other_1.0-stdout MODEL_LOG - much to say\n" * 100)
        assert watch.failure(model) is None
    assert sum(read) == log.mark()
