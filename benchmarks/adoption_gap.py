"""The gap that a job sees which runs without this provider: adopted, against stop then submit, on a real cluster.

    python -m benchmarks.adoption_gap [--rounds 5]

500 records/s, two queries, trigger 1 s, the job warm for 20 s before each side; sides alternate:

- `adopt`: its follower stands by, the cluster ends the job by its id, the follower takes over. Then the stream is left
  and the job submitted again, which is not measured.
- `start`: the job is ended, then the stream is started, which rehearses first: what adopting was before.
- `restart`: the job is ended and submitted again, without this provider.

A gap is the largest time between two commits of one query around the change; the slower query counts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from airflow_stream_provider.cli.run_here import Exit, run_here
from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.stream import StartStreamOperator, StopStreamOperator
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.spec.stream import load_spec
from benchmarks.results import machine, show, spread, write
from devstack.commits import intervals, largest_gap
from devstack.stack import LocalStack
from devstack.stack_stream import QUERIES, StackStream, stack_stream
from devstack.unmanaged import end_unmanaged, leave, submit_unmanaged, yaml_of

RATE = 500
WARM_SECONDS = 20.0


class Adoptions:
    """One job, ended and followed again and again, and what each change cost."""

    def __init__(self, stream: StackStream, folder: Path) -> None:
        self.stream = stream
        self.sides: dict[str, list[float]] = {"adopt": [], "start": [], "restart": [], "steady": []}
        self._spec = load_spec(yaml_of(stream, folder))
        self._number = 0
        self._job = submit_unmanaged(stream)
        self._warm()

    def round(self) -> None:
        """Adopt, start, restart."""
        began = time.time()
        self._run(AdoptOperator(task_id="adopt", stream=self._spec, reason="benchmark", job=self._job))
        self._measure("adopt", began)
        self._leave()
        began = time.time()
        end_unmanaged(self.stream, self._job)
        self._run(StartStreamOperator(task_id="start", stream=self._spec, reason="benchmark"))
        self._measure("start", began)
        self._leave()
        began = time.time()
        end_unmanaged(self.stream, self._job)
        self._job = submit_unmanaged(self.stream)
        self._measure("restart", began)
        self._warm()

    def _run(self, operator: StreamOperator) -> None:
        operator.hook.create()
        self._number += 1
        ran = run_here(operator, TaskIdentity("benchmark", str(self._number), operator.task_id))
        assert ran.code is Exit.DONE, ran.said

    def _leave(self) -> None:
        self._run(StopStreamOperator(task_id="stop", stream=self._spec, reason="benchmark"))
        leave(self.stream)
        self._job = submit_unmanaged(self.stream)
        self._warm()

    def _warm(self) -> None:
        self.stream.settle()
        began = time.time()
        time.sleep(WARM_SECONDS)
        self.stream.watcher.look()
        for query in QUERIES:
            self.sides["steady"] += intervals(self.stream.watcher.commits[query], began, time.time())

    def _measure(self, side: str, began: float) -> None:
        self.stream.settle()
        commits = self.stream.watcher.commits
        self.sides[side].append(max(largest_gap(commits[q], began, time.time()) or 0.0 for q in QUERIES))

    def close(self) -> None:
        """End the job that is left."""
        end_unmanaged(self.stream, self._job)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    before = machine()
    with tempfile.TemporaryDirectory() as root, LocalStack(Path(root) / "stack", worker_memory="10g") as stack:
        os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(stack.cluster.connection)
        with stack_stream(Path(root), stack, "gap", rate=RATE) as opened:
            adoptions = Adoptions(opened, Path(root))
            for number in range(options.rounds):
                adoptions.round()
                latest = {side: round(values[-1], 2) for side, values in adoptions.sides.items()}
                print(f"round {number + 1}: {latest}", flush=True)
                _report(adoptions, before)
            adoptions.close()
    return 0


def _report(adoptions: Adoptions, before: dict[str, Any]) -> None:
    sides = {side: spread(values) for side, values in adoptions.sides.items()}
    adopted = sides["adopt"]["p50"]
    verdicts: dict[str, tuple[float, str, float]] = {
        f"{side} p50 / adopt p50": (sides[side]["p50"] / adopted, ">=", 2.0) for side in ("start", "restart")
    }
    show("gaps of a job that is adopted (s)", sides, verdicts)
    write("adoption_gap", {**sides, "machine": before})


if __name__ == "__main__":
    sys.exit(main())
