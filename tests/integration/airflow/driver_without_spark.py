"""A driver without Spark: the real control log, the real decisions, heartbeats and files; its batches are numbers.

It stands where `spark-submit` would, so that everything from the operators down to the processes of LocalCluster is
real. A query's batch N appends the line N to its `output` and then `commits/N` to its checkpoint. The release's script
is Python that sets `QUERIES` (names) and, for the unhappy ways, `BEHAVIOUR`:

- refuse: its rehearsal is refused;
- die-starting: it ends before it says anything;
- die-running: it is gone, without a word, after its third batch as a holder;
- deaf: as a holder it never reaches a boundary.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import secrets
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_stream_provider.control import ControlLog, open_log
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.control.releases import verify
from airflow_stream_provider.lifecycle.driver_decision import Action, DriverView, decide
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import may_acquire
from airflow_stream_provider.lifecycle.state import StreamState

TICK = 0.1
BATCH = 0.3


def put(path: Path, text: str) -> None:
    """Write a file of a checkpoint as Spark does: under its name it is there as a whole, or not at all."""
    hidden = path.with_name(f".{path.name}.tmp")
    hidden.write_text(text)
    hidden.replace(path)


class Query:
    """One query: its checkpoint, its output, and where it is."""

    def __init__(self, name: str, data: Path) -> None:
        self.name = name
        self.checkpoint = data / "checkpoints" / name
        self.output = data / f"{name}.txt"
        self.batch: int | None = None

    def run_batch(self) -> None:
        for folder in ("offsets", "commits"):
            (self.checkpoint / folder).mkdir(parents=True, exist_ok=True)
        put(self.checkpoint / "metadata", '{"id": "00000000-0000-0000-0000-000000000000"}')
        number = max((int(p.name) for p in (self.checkpoint / "commits").iterdir()), default=-1) + 1
        offsets = json.dumps({"orders": {"0": number + 1}})
        put(self.checkpoint / "offsets" / str(number), f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{offsets}')
        with open(self.output, "a") as output:
            output.write(f"{number}\n")
        put(self.checkpoint / "commits" / str(number), 'v1\n{"nextBatchWatermarkMs":0}')
        self.batch = number


class Driver:
    def __init__(self, log: ControlLog, incarnation: str, policy: Policy, script: dict[str, Any], data: Path) -> None:
        self.log = log
        self.incarnation = incarnation
        self.deployment = incarnation.rpartition(".")[0]
        self.policy = policy
        self.behaviour = script.get("BEHAVIOUR", "")
        self.queries = [Query(name, data) for name in script["QUERIES"]]
        self.rehearsed = self.running = self.terminating = False
        self.peer: tuple[str, int] | None = None
        self.peer_moved = False
        self.released_at: float | None = None
        self.counter = self.batches = 0
        self.next_batch = 0.0

    def run(self) -> None:
        if self.behaviour == "die-starting":
            os._exit(1)
        while True:
            try:
                self.turn()
            except ControlUnavailable as error:
                print(error, flush=True)
            time.sleep(TICK)

    def turn(self) -> None:
        state = self.log.refresh()
        self.beat(state)
        self.watch_peer(state)
        if state.open_request is None:
            self.released_at = None
        released_for = None if self.released_at is None else time.monotonic() - self.released_at
        me = DriverView(self.incarnation, self.rehearsed, self.running, self.peer_moved, released_for, self.terminating)
        action = decide(state, me, self.policy.take_back_seconds)
        if action is Action.WAIT:
            self.rehearse()
            self.run_batches()
        else:
            print(action.value, state.seq, flush=True)
            getattr(self, action.value)(state)

    def rehearse(self) -> None:
        if self.behaviour == "refuse":
            fields = {"deployment": self.deployment, "incarnation": self.incarnation}
            self.append(lambda _: self.record(Kind.FAILED, **fields, reason="Spark refuses the plan.", error="no"))
            os._exit(50)
        self.rehearsed = True

    def run_batches(self) -> None:
        if not self.running or time.monotonic() < self.next_batch:
            return
        self.next_batch = time.monotonic() + BATCH
        for query in self.queries:
            query.run_batch()
        self.batches += 1
        if self.behaviour == "die-running" and self.batches == 3:
            os._exit(1)

    def watch_peer(self, state: StreamState) -> None:
        request = state.open_request
        if state.holder != self.incarnation or request is None or not request.to or request.stage.value != "ready":
            self.peer, self.peer_moved = None, False
            return
        count = (self.log.heartbeat(request.to) or Heartbeat()).counter
        if self.peer is None or self.peer[0] != request.id:
            self.peer = (request.id, count)
        self.peer_moved = count > self.peer[1]

    def beat(self, state: StreamState) -> None:
        self.counter += 1
        heartbeat = Heartbeat(
            counter=self.counter,
            at=time.time(),
            pid=os.getpid(),
            queries=tuple(
                QueryProgress(q.name, str(q.checkpoint), batch=q.batch, batch_seconds=0.01) for q in self.queries
            ),
            phase="running" if self.running else "standby" if self.rehearsed else "starting",
            submission=os.environ.get("AIRFLOW_STREAM_SUBMISSION", ""),
            ui_url="http://spark:4040",
        )
        self.log.beat(self.incarnation, heartbeat)

    # -- one method per action ---------------------------------------------------------------------------------------

    def announce(self, state: StreamState) -> None:
        queries = [
            {"name": q.name, "checkpoint": str(q.checkpoint), "sources": ["kafka:subscribe=orders"]}
            for q in self.queries
        ]
        rehearsal = {"queries": {q.name: {"last_batch_seconds": 0.01, "batches": 3} for q in self.queries}, "notes": []}
        fields = {"deployment": self.deployment, "incarnation": self.incarnation}
        self.append(lambda _: self.record(Kind.STANDBY, **fields, queries=queries, rehearsal=rehearsal))

    def answer(self, state: StreamState) -> None:
        request = state.open_request
        assert request is not None
        record = self.record(Kind.READY, request=request.id, incarnation=self.incarnation)
        self.append(lambda now: record if now.seq == state.seq else None)

    def acquire(self, state: StreamState) -> None:
        def build(now: StreamState) -> Record | None:
            request = now.open_request
            if request is None or not may_acquire(now, self.incarnation):
                return None
            return self.record(Kind.ACQUIRED, incarnation=self.incarnation, request=request.id, epoch=now.epoch + 1)

        self.append(build)

    def start(self, state: StreamState) -> None:
        self.running = True

    def release(self, state: StreamState) -> None:
        request = None if self.terminating else state.open_request
        if self.behaviour == "deaf" and not self.terminating:
            time.sleep(self.policy.boundary_seconds)
            if request is not None:
                record = self.record(
                    Kind.ABORTED, request=request.id, incarnation=self.incarnation, reason="boundary missed"
                )
                self.append(lambda now: record if now.open_request else None)
            return
        self.running, self.released_at = False, time.monotonic()
        fields = {
            "incarnation": self.incarnation,
            "boundary": "completed",
            "ends": {q.name: {"batch": q.batch, "boundary": "completed"} for q in self.queries},
            "request": request.id if request else None,
            "to": request.to if request else None,
        }
        self.append(lambda now: self.record(Kind.RELEASED, **fields) if now.holder == self.incarnation else None)

    def exit(self, state: StreamState) -> None:
        os._exit(0)

    def halt(self, state: StreamState) -> None:
        os._exit(50)

    def record(self, kind: str, **fields: Any) -> Record:
        return make_record(kind, f"driver:{self.incarnation}", **fields)

    def append(self, build: Callable[[StreamState], Record | None]) -> None:
        self.log.propose(build)


def main() -> None:
    launcher = next(i for i, word in enumerate(sys.argv) if word.endswith("launcher.py"))
    parser = argparse.ArgumentParser()
    for option in ("--control", "--stream", "--deployment"):
        parser.add_argument(option)
    parser.add_argument("script")
    parser.add_argument("data")
    options = parser.parse_args([word for word in sys.argv[launcher + 1 :] if word != "--"])
    log = open_log(options.control, options.stream)
    declared = log.refresh().deployments.get(options.deployment)
    if declared is None or declared.ended:
        return
    release = declared.release
    verify(log.store.folder, release)
    script = runpy.run_path(str(release.folder(log.store.folder) / release.application))
    incarnation = f"{options.deployment}.{secrets.token_hex(4)}"
    driver = Driver(log, incarnation, declared.policy, script, Path(options.data))

    def terminate(*_: object) -> None:
        driver.terminating = True

    signal.signal(signal.SIGTERM, terminate)
    driver.run()


if __name__ == "__main__":
    main()
