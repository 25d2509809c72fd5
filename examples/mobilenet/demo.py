"""From a handler to answers: pack MobileNetV2, serve it, ask it with real pictures, stop it.

Run by scripts/demo. Exits 1 if a picture gets the wrong class or no batch was larger than one.
"""

import os
import re
import sys
import time
from pathlib import Path

import psutil
from assets import PHOTOGRAPHS, gather

from makemar.archiver import plan_archive, read_spec, write_archive
from makemar.serving import InferenceClient, Reply, TorchServe

HERE = Path(__file__).parent
MODEL = "mobilenet"


def pack() -> Path:
    """Pack the archive that mar.toml describes."""
    gather(HERE / "build")
    started = time.perf_counter()
    plan = plan_archive(read_spec(HERE / "mar.toml"))
    archive = write_archive(plan, HERE / "build" / "mobilenet.mar", force=True)
    took = time.perf_counter() - started
    print(f"packed    {archive.name}: {len(plan.members)} members, "
          f"{archive.stat().st_size / 1e6:.1f} MB in {took:.2f} s")  # fmt: skip
    return archive


def ask(client: InferenceClient) -> bool:
    """Send eight pictures at once, then three one by one; tell whether all classes are right."""
    pictures = [(HERE / "build" / name, expected) for name, expected in PHOTOGRAPHS.items()]
    eight = (pictures * 3)[:8]
    started = time.perf_counter()
    replies = client.predict_many(MODEL, [path.read_bytes() for path, _ in eight])
    print(f"at once   8 pictures in {(time.perf_counter() - started) * 1000:.0f} ms")
    right = [show(p, e, r) for (p, e), r in zip(eight, replies, strict=True)]
    for path, expected in pictures:
        started = time.perf_counter()
        reply = client.predict(MODEL, path.read_bytes())
        print(f"alone     1 picture in {(time.perf_counter() - started) * 1000:.0f} ms")
        right.append(show(path, expected, reply))
    return all(right)


def show(path: Path, expected: str, reply: Reply) -> bool:
    """Print what the server said of one picture; tell whether it is right."""
    if not reply.ok:
        print(f"          {path.name:20}  {reply.status} {reply.text}")
        return False
    label, probability = max(reply.json().items(), key=lambda item: item[1])
    verdict = "" if label == expected else f"   expected {expected}"
    print(f"          {path.name:20}  {label} {probability:.3f}{verdict}")
    return label == expected


def batch_sizes(log: str) -> list[int]:
    """Return the size of each batch, from the line that the handler logs for it."""
    return [int(size) for size in re.findall(r"\bbatch=(\d+) forwards=", log)]


def main() -> int:
    """Run the whole way and return the exit code."""
    archive = pack()
    with TorchServe([archive]) as server:
        print(f"serving   {server.addresses.inference}, one worker READY, tokens on")
        right = ask(server.inference)
        sizes, pid = batch_sizes(server.model_log()), server.pid
    print(f"batches   the handler saw {', '.join(map(str, sizes))} requests at a time")
    print("stopped   " + ("but its process is still there" if psutil.pid_exists(pid) else "clean"))
    make_mar = os.path.relpath(Path(sys.executable).with_name("make-mar"))
    print(f"next      {make_mar} serve {os.path.relpath(archive)}")
    print(f"          {make_mar} predict {MODEL} YOUR_PICTURE.jpg      (in another terminal)")
    return 0 if right and max(sizes, default=0) > 1 and not psutil.pid_exists(pid) else 1


if __name__ == "__main__":
    sys.exit(main())
