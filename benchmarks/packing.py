"""make-mar beside torch-model-archiver and cp, on the same files in the same run.

    OMP_NUM_THREADS=1 python benchmarks/packing.py [--rounds 3] [--folder DIR]

Each round runs every program once, as a user does, start-up included; before each run the last
one's output is removed and the disk is idle. The files are random float32 weights in a `torch.save`
checkpoint, and already in memory. Needs 4 GiB of disk, and about a minute and a half a round.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

HANDLER = """
from makemar.handlers import BaseHandler


class Handler(BaseHandler):
    pass
"""
# In a process of its own, so that the timing one stays small.
CHECKPOINT = """
import sys
import torch
count = int(sys.argv[2]) // 16 // 4
state = {f"layers.{i}.weight": torch.randn(count) for i in range(16)}
torch.save({"layers": state}, sys.argv[1])
"""
HASH = """
import hashlib, sys
digest = hashlib.sha256()
with open(sys.argv[1], "rb") as stream:
    while chunk := stream.read(1 << 20):
        digest.update(chunk)
print(digest.hexdigest())
"""
# The program as its entry point runs it, and then what the kernel says of its memory.
PEAK = """
import sys
from makemar.cli import main
code = main(sys.argv[1:])
status = open("/proc/self/status").read()
print(status.partition("VmHWM:")[2].split()[0], file=sys.stderr)
sys.exit(code)
"""
PROGRAMS = Path(sys.executable).parent
Commands = Mapping[str, Sequence[str]]


def flags(weights: Path, kind: str) -> list[str]:
    """Write the command line that both programs understand."""
    words = f"--model-name big --version 1.0 --handler handler.py --archive-format {kind}"
    return [*words.split(), "--serialized-file", str(weights), "--export-path", "out"]


def commands(weights: Path) -> dict[str, Sequence[str]]:
    """Everything that is compared, by the name it has in the table."""
    ours, theirs = str(PROGRAMS / "make-mar"), str(PROGRAMS / "torch-model-archiver")
    return {
        "cp": ["cp", "--reflink=never", str(weights), "out/copy"],
        "SHA-256": [sys.executable, "-c", HASH, str(weights)],
        "Python alone": [sys.executable, "-c", HASH, os.devnull],
        "make-mar": [ours, *flags(weights, "default")],
        "make-mar --link": [ours, *flags(weights, "no-archive"), "--link"],
        "make-mar alone": [ours, *flags(weights, "no-archive")[:-4], "--export-path", "out"],
        "zip-store": [theirs, *flags(weights, "zip-store")],
        "default": [theirs, *flags(weights, "default")],
    }


def run(command: Sequence[str], folder: Path) -> float:
    """Run a program in the folder and return its seconds; nothing of it is left."""
    out = folder / "out"
    out.mkdir()
    os.sync()
    # The old program stages a copy in TMPDIR: here, on the same disk.
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder / "staging")}
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - started
    shutil.rmtree(out)
    return took


def interleave(programs: Commands, folder: Path, *, rounds: int) -> dict[str, list[float]]:
    """Run all programs in turn; what disturbs a round disturbs all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, command in programs.items():
            seconds[name].append(run(command, folder))
    return seconds


def compare(
    seconds: Mapping[str, list[float]], name: str, other: str, met: Callable[[float], bool]
) -> str:
    """Put the median of the rounds' ratios into words."""
    pairs = zip(seconds[name], seconds[other], strict=True)
    ratio = statistics.median(a / b for a, b in pairs)
    times = f"{ratio:.2f} x" if ratio > 0.1 else f"1/{1 / ratio:.1f} of"
    return f"{times} {other}  {verdict(met(ratio))}"


def compare_links(seconds: Mapping[str, list[float]]) -> str:
    """Put what a linked directory costs into words, both programs' start-up left out."""
    names = ("make-mar --link", "make-mar alone", "SHA-256", "Python alone")
    rounds = zip(*(seconds[name] for name in names), strict=True)
    ratio = statistics.median((link - start) / (sha - bare) for link, start, sha, bare in rounds)
    with_start = compare(seconds, "make-mar --link", "SHA-256", lambda r: r <= 1)
    return f"{ratio:.2f} x SHA-256  {verdict(ratio <= 1)}   (start-up included: {with_start})"


def verdict(met: bool) -> str:
    """Say whether a limit was kept."""
    return "met" if met else "SHORT"


def show(title: str, seconds: Mapping[str, list[float]]) -> None:
    """Print each program's median, and its single runs."""
    print(title)
    for name, taken in seconds.items():
        times = " ".join(f"{each:.2f}" for each in taken)
        print(f"  {name:16} {statistics.median(taken):7.2f} s   ({times})")


def peak(weights: Path, folder: Path, *more: str) -> float:
    """Return the packing process's peak memory, VmHWM, in MB."""
    out = folder / "out"
    out.mkdir()
    command = [sys.executable, "-c", PEAK, *flags(weights, "default"), *more]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    shutil.rmtree(out)
    return int(done.stderr.split()[-1]) * 1024 / 1e6


def large(folder: Path, *, rounds: int) -> None:
    """Pack 1 GiB."""
    weights = checkpoint(folder, "big.pth", 1 << 30)
    seconds = interleave(commands(weights), folder, rounds=rounds)
    show("1 GiB of random float weights", seconds)
    mar = "make-mar"
    print(f"  limits, medians of {rounds} interleaved rounds:")
    print("    .mar, at most 1/25:    ", compare(seconds, mar, "default", lambda r: r <= 1 / 25))
    print("    .mar, at most 0.67:    ", compare(seconds, mar, "zip-store", lambda r: r <= 2 / 3))
    print("    .mar, at most 4:       ", compare(seconds, mar, "cp", lambda r: r <= 4))
    print("    --link, at most 1:     ", compare_links(seconds))
    memory = peak(weights, folder)
    print(f"    peak memory, under 100: {memory:.0f} MB  {verdict(memory < 100)}")
    weights.unlink()


def small(folder: Path, *, rounds: int) -> None:
    """Pack what a MobileNet is: a handler and 14 MB."""
    weights = checkpoint(folder, "small.pth", 14_000_000)
    wanted = ("make-mar", "zip-store", "default")
    programs = {name: command for name, command in commands(weights).items() if name in wanted}
    seconds = interleave(programs, folder, rounds=rounds)
    show("a handler and 14 MB of weights, start-up included", seconds)
    print(f"  limit, medians of {rounds} interleaved rounds:")
    print("    .mar, at most 1:       ", compare(seconds, "make-mar", "default", lambda r: r <= 1))


def checkpoint(folder: Path, name: str, size: int) -> Path:
    """Save about that many bytes of weights, and read them once."""
    path = folder / name
    subprocess.run([sys.executable, "-c", CHECKPOINT, str(path), str(size)], check=True)
    with path.open("rb", buffering=0) as stream:
        buffer = bytearray(1 << 20)
        while stream.readinto(buffer):
            pass
    return path


def main() -> None:
    """Compare both sizes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write, on a disk with 4 GiB free")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as temporary:
        folder = Path(temporary)
        if shutil.disk_usage(folder).free < 4 << 30:
            sys.exit(f"{folder} has less than 4 GiB free; name another --folder")
        (folder / "handler.py").write_text(HANDLER)
        (folder / "staging").mkdir()
        small(folder, rounds=3 * chosen.rounds)
        large(folder, rounds=chosen.rounds)


if __name__ == "__main__":
    main()
