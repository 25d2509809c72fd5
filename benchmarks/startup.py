"""How long `make-mar --help` takes beside a Python that does nothing, and beside torch's import.

    python benchmarks/startup.py

Prints medians of runs taken in turn.
"""

import shutil
import statistics
import subprocess
import sys
import time

ROUNDS = 15


def main() -> None:
    """Time the three in turn."""
    program = shutil.which("make-mar") or f"{sys.prefix}/bin/make-mar"
    commands = {
        "make-mar --help": [program, "--help"],
        "python -c pass": [sys.executable, "-c", "pass"],
        "import torch": [sys.executable, "-c", "import torch"],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            taken[name].append(time.perf_counter() - started)
    ours = statistics.median(taken["make-mar --help"])
    for name, seconds in taken.items():
        median = statistics.median(seconds)
        print(f"{name:16} {median * 1000:6.0f} ms, help takes {ours / median:5.2f} times as long")


if __name__ == "__main__":
    main()
