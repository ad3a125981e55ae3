"""What the launcher costs: the same script with and without it, batch time against batch time.

    python -m benchmarks.runtime_overhead [--rounds 5] [--batches 90]

Sides alternate; each round is a fresh driver. Of each run the first third of the batches is left out (JIT).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.results import machine, show, spread, write
from devstack.drivers import HandRunStream, hand_run_stream, spark_submit, wait_for

APP = Path(__file__).parent / "overhead_app.py"


def plain(folder: Path, batches: int) -> list[float]:
    """Run the script as it is under spark-submit and return its batches' seconds."""
    result = folder / "seconds.json"
    command = spark_submit([str(APP), str(folder / "checkpoint"), str(result), str(batches)])
    with (folder / "log").open("wb") as log:
        subprocess.run(command.words, env=command.environment, stdout=log, stderr=log, check=True)
    return list(json.loads(result.read_text()))


def launched(folder: Path, batches: int) -> list[float]:
    """Run the same script through the launcher, appointed as holder, and return its batches' seconds."""
    result = folder / "seconds.json"
    with hand_run_stream(folder) as stream:
        stream.deploy("overhead-1", APP, str(folder / "checkpoint"), str(result), str(batches))
        _hold(stream)
        wait_for("the script to end", lambda: stream.state.deployments["overhead-1"].ended == "finished", 600)
    return list(json.loads(result.read_text()))


def _hold(stream: HandRunStream) -> None:
    stream.hand_over(stream.standby("overhead-1"))


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=90)
    options = parser.parse_args()
    before = machine()
    medians: dict[str, list[float]] = {"plain": [], "launcher": []}
    for number in range(options.rounds):
        for side, run in (("plain", plain), ("launcher", launched)):
            with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
                seconds = run(Path(folder), options.batches)
            medians[side].append(statistics.median(seconds[len(seconds) // 3 :]))
            print(f"round {number + 1} {side}: median batch {medians[side][-1]:.4f} s", flush=True)
    ratios = [b / a for a, b in zip(medians["plain"], medians["launcher"], strict=True)]
    sides = {side: spread(found) for side, found in medians.items()}
    body = {**sides, "ratio": spread(ratios), "machine": before}
    show(
        "runtime overhead: median batch seconds per run",
        sides,
        {"launcher / plain": (body["ratio"]["p50"], "<=", 1.03)},
    )
    write("runtime_overhead", body)
    return 0


if __name__ == "__main__":
    sys.exit(main())
