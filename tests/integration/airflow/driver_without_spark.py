"""A driver without Spark: the runtime's own agent on the real control log and real files; its batches are numbers.

It stands where `spark-submit` would, so that everything from the operators down to the processes of LocalCluster is
real. A query's batch N appends the line N to its `output` and then `commits/N` to its checkpoint. The release's script
is Python that sets `QUERIES` (names), `SAYS` (what it says of each besides) and, for the unhappy ways, `BEHAVIOUR`:

- refuse: its rehearsal is refused;
- few-rows: its rehearsal reads a hundredth of the rows that the holder's batches have;
- slow-rows: its rehearsal takes a second for each row;
- slow: its rehearsal takes a minute;
- die-starting: it ends before it says anything;
- die-running: it is gone, without a word, after its third batch as a holder;
- leaks: a tenth of its heap is left;
- deaf: as a holder it never reaches a boundary, but for SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import secrets
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from airflow_stream_provider.checkpoint import Seen
from airflow_stream_provider.control import open_log
from airflow_stream_provider.control.releases import verify
from airflow_stream_provider.lifecycle.due_rewind import DueRewind
from airflow_stream_provider.lifecycle.errors import RehearsalRefused, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.lifecycle.vitals import Vitals
from airflow_stream_provider.runtime import agent as agent_thread
from airflow_stream_provider.runtime.agent import Agent
from airflow_stream_provider.runtime.control_client import ControlClient
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from airflow_stream_provider.runtime.surroundings import Ports
from devstack.control_folder import folder_of

BATCH = 0.3
ROWS = 1000


def put(path: Path, text: str) -> None:
    """Write a file of a checkpoint as Spark does: under its name it is there as a whole, or not at all."""
    hidden = path.with_name(f".{path.name}.tmp")
    hidden.write_text(text)
    hidden.replace(path)


class Query:
    """One query: its checkpoint, its output, and where it is."""

    def __init__(self, name: str, data: Path) -> None:
        self.name = self.label = name
        self.checkpoint = data / "checkpoints" / name
        self.output = data / f"{name}.txt"
        self.batch: int | None = None
        self.began = datetime.now(UTC)

    def run_batch(self) -> None:
        self.began = datetime.now(UTC)
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


class Queries:
    """All queries, run in turn by one thread; see `runtime.query_group.QueryGroup`."""

    ready = True

    def __init__(self, names: Sequence[str], data: Path, behaviour: str, said: Mapping[str, Any]) -> None:
        self.terminating = False
        self._queries = [Query(name, data) for name in names]
        self._behaviour = behaviour
        self._said = said
        self._batches = 0
        self._running = False
        self._between_batches = threading.Lock()
        self._paused = False

    @property
    def trouble(self) -> str:
        return ""

    @property
    def paused(self) -> bool:
        return self._paused

    def describe(self) -> list[dict[str, Any]]:
        return [
            {"name": q.name, "checkpoint": str(q.checkpoint), "sources": ["kafka:subscribe=orders"], **self._said}
            for q in self._queries
        ]

    def environment(self) -> dict[str, Any]:
        return {}

    def progress(self) -> list[QueryProgress]:
        return [
            QueryProgress(
                q.name,
                str(q.checkpoint),
                batch=q.batch,
                batch_seconds=0.01,
                input_rows=ROWS,
                triggered_at=f"{q.began:%Y-%m-%dT%H:%M:%S.%f}Z",
                rows_exact=True,
                quiet_seconds=0.0,
            )
            for q in self._queries
        ]

    def ended(self) -> Mapping[str, QueryEnd]:
        return {query.name: QueryEnd(completed=True, batch=query.batch) for query in self._queries}

    def has_committed(self) -> bool:
        return any(query.batch is not None for query in self._queries)

    def hold(self) -> Sequence[Query]:
        return self._queries

    def follow(self, progress: Sequence[QueryProgress]) -> None:
        return

    def let_go(self) -> None:
        return

    def check_seen(self, seen: Mapping[str, Seen]) -> None:
        return

    def start(self, queries: Sequence[Query], seen: Mapping[str, Seen]) -> None:
        self._running = True
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._between_batches:
                if not self._running:
                    return
                for query in self._queries:
                    query.run_batch()
                self._batches += 1
            if self._behaviour == "die-running" and self._batches == 3:
                os._exit(1)
            time.sleep(BATCH)

    def check_rewind(self, wanted: WantedRewind) -> None:
        raise StreamError("It reads no Kafka.")

    def rewind(self, queries: Sequence[Any], due: DueRewind, seen: Mapping[str, Seen]) -> str:
        raise StreamError("It reads no Kafka.")

    def stop(self, seconds: float) -> tuple[Mapping[str, QueryEnd], BoundaryMissed | None]:
        if self._behaviour == "deaf" and not self.terminating:
            time.sleep(seconds)
            return {}, BoundaryMissed("boundary missed")
        with self._between_batches:
            self._running = False
        return self.ended(), None

    def interrupt(self) -> Mapping[str, QueryEnd]:
        return {}  # a deaf driver runs on

    def restart_in_place(self) -> None:
        return  # a deaf driver has stopped nothing

    def pause(self, seconds: float) -> None:
        self._between_batches.acquire()
        self._paused = True

    def resume(self) -> None:
        self._between_batches.release()
        self._paused = False

    def unable(self) -> None:
        return None

    def tend(self) -> tuple[Sequence[Query], None]:
        return [], None

    def restart(self, queries: Sequence[Query]) -> None:
        return


class Process:
    """This process; nothing halts it when its lease is over."""

    facts = Heartbeat(
        pid=os.getpid(), submission=os.environ.get("AIRFLOW_STREAM_SUBMISSION", ""), ui_url="http://spark:4040"
    )

    waits_for = ""

    def __init__(self, behaviour: str) -> None:
        if behaviour == "leaks":
            vitals = Vitals(time.time(), heap_after_gc=900 * 10**6, heap_max=1000 * 10**6)
            self.facts = replace(self.facts, vitals=vitals)

    def postpone(self, sent: float) -> None:
        return

    def exit(self) -> None:
        os._exit(0)

    def halt(self) -> None:
        os._exit(50)


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
    folder = release.folder(folder_of(log))
    verify(folder, release)
    script = runpy.run_path(str(folder / release.application))
    behaviour = script.get("BEHAVIOUR", "")
    if behaviour == "die-starting":
        os._exit(1)
    queries = Queries(script["QUERIES"], Path(options.data), behaviour, script.get("SAYS", {}))

    def rehearse(former: Sequence[Mapping[str, Any]], **rest: Any) -> dict[str, Any]:
        if behaviour == "refuse":
            raise RehearsalRefused("Spark refuses the plan.")
        if behaviour == "slow":
            time.sleep(60.0)
        rows, seconds = {"few-rows": (ROWS // 100, 0.01), "slow-rows": (ROWS, float(ROWS))}.get(behaviour, (ROWS, 0.01))
        again = {"batch": 0, "rows": rows, "seconds": seconds, "state_rows": 0, "state_bytes": 0}
        summary = {
            "last_batch_seconds": 0.01,
            "batches": 2,
            "batch_rows": [rows, rows],
            "batch_seconds": [0.5, seconds],
            "rows_exact": True,
        }
        return {"queries": {q: {**summary, "again": again} for q in script["QUERIES"]}, "notes": []}

    agent_thread.TICK_SECONDS = 0.1  # each test waits for many turns
    thread = agent_thread.AgentThread()
    agent = Agent(
        ControlClient(log, f"{options.deployment}.{secrets.token_hex(4)}"),
        declared.policy,
        Ports(
            queries=cast(Any, queries),
            process=cast(Any, Process(behaviour)),
            rehearse=rehearse,
            compare=lambda former: None,
            spawn=thread.spawn,
        ),
    )

    def terminate(*_: object) -> None:
        queries.terminating = True
        thread.terminate(agent)

    signal.signal(signal.SIGTERM, terminate)
    thread.start(agent)
    while True:
        time.sleep(1.0)  # the script; it never ends


if __name__ == "__main__":
    main()
