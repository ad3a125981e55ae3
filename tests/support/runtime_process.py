"""A runtime of any version in a process of its own: it reads and writes a control log, and has drivers without Spark.

runtime_process.py ZIP CONTROL_URL [BROKERS]    with orders on standard input, a JSON object a line, each answered

It stands for what Airflow's processes do with the log (`append`, `state`, `heartbeats`, `save`), and for drivers
(`driver`, `turn`) whose agent and acts are those of the zip; their queries and processes are made up here. Only the
zip, pyspark and the standard library are imported: what else this repository has is of another version.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

STREAM = "orders"


def plain(found: Any) -> Any:
    """Return a value as JSON has it; of a record what it says, with its number."""
    if isinstance(found, Enum):
        return found.value
    if is_dataclass(found):
        return {field.name: plain(getattr(found, field.name)) for field in fields(found)}
    if isinstance(found, Mapping):
        return {str(plain(key)): plain(each) for key, each in found.items()}
    return [plain(each) for each in found] if isinstance(found, (list, tuple)) else found


class Clock:
    """Goes on by a second a turn."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Queries:
    """One query, which commits a batch a turn while it runs."""

    label, checkpoint = "out", "/data/checkpoints/orders/out"
    ready, paused, trouble = True, False, ""

    def __init__(self, last: int) -> None:
        self.batch = last
        self.running = self.proven = False

    def describe(self) -> list[dict[str, Any]]:
        return [{"name": self.label, "checkpoint": self.checkpoint, "sink": "kafka", "sources": [], "conf": {}}]

    def progress(self) -> Sequence[Any]:
        from airflow_stream_provider.lifecycle.heartbeat import QueryProgress

        if self.running:
            self.batch, self.proven = self.batch + 1, True
        at = "2026-11-22T20:50:28.000Z"
        committed = ({"orders-in": {"0": self.batch}},)
        return [QueryProgress(self.label, self.checkpoint, batch=self.batch, triggered_at=at, committed=committed)]

    def _end(self) -> Mapping[str, Any]:
        from airflow_stream_provider.runtime.ports import QueryEnd

        self.running = False
        return {self.label: QueryEnd(completed=True, batch=self.batch, checkpoint=self.checkpoint)}

    def ended(self) -> Mapping[str, Any]:
        return self._end()

    def has_committed(self) -> bool:
        return self.proven

    def hold(self) -> Sequence[Any]:
        return [self]

    def follow(self, progress: Sequence[Any]) -> None:
        return

    def let_go(self) -> None:
        return

    def check_seen(self, seen: Mapping[str, Any]) -> None:
        return

    def start(self, queries: Sequence[Any], seen: Mapping[str, Any], **older: Any) -> None:
        # An older runtime gives the number itself, and says whether it is required.
        found = seen.get(self.checkpoint, self.batch)
        self.batch, self.running = getattr(found, "batch", found), True

    def check_rewind(self, wanted: Any) -> None:
        return

    def rewind(self, queries: Sequence[Any], due: Any, seen: Mapping[str, Any]) -> str:
        return ""

    def stop(self, seconds: float) -> tuple[Mapping[str, Any], None]:
        return self._end(), None

    def interrupt(self) -> Mapping[str, Any]:
        return {}

    def restart_in_place(self) -> None:
        self.running = True

    def pause(self, seconds: float) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def unable(self) -> None:
        return None

    def tend(self) -> tuple[Sequence[Any], None]:
        return (), None

    def restart(self, queries: Sequence[Any]) -> None:
        return


class Exited(BaseException):
    """The process has ended, with this code."""


class Process:
    """Does not end: it says that it would have."""

    waits_for = ""

    def __init__(self) -> None:
        from airflow_stream_provider.lifecycle.heartbeat import Heartbeat

        self.facts = Heartbeat(pid=1, host="here", spark_version="4.0.0")

    def postpone(self, sent: float) -> None:
        return

    def exit(self) -> None:
        raise Exited(0)

    def halt(self) -> None:
        raise Exited(50)


class Work:
    """Work in the background, which is done between two turns."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work
        self.alive = True

    def is_alive(self) -> bool:
        return self.alive


class Driver:
    """One incarnation."""

    def __init__(self, log: Any, incarnation: str) -> None:
        from airflow_stream_provider.lifecycle.policy import Policy
        from airflow_stream_provider.runtime.agent import Agent
        from airflow_stream_provider.runtime.control_client import ControlClient
        from airflow_stream_provider.runtime.ports import Ports

        self._clock = Clock()
        self._works: list[Work] = []
        ports = Ports(
            queries=Queries(7),
            process=Process(),
            rehearse=lambda former, **of_its_version: {"seconds": 1.5, "notes": [], "queries": {"out": {}}},
            compare=lambda former: None,
            spawn=self._spawn,
            clock=self._clock,
        )
        self._agent = Agent(ControlClient(log, incarnation, clock=self._clock), Policy(), ports)

    def _spawn(self, work: Callable[[], None]) -> Work:
        self._works.append(Work(work))
        return self._works[-1]

    def turn(self) -> int | None:
        """Take a turn and do what it has begun; return the exit code, None while it lives."""
        self._clock.now += 1.0
        try:
            self._agent.turn()
            for begun in [each for each in self._works if each.alive]:
                begun.alive = False
                begun.work()
        except Exited as exited:
            return int(exited.args[0])
        return None


class Side:
    """Carries out orders."""

    def __init__(self, url: str, brokers: str) -> None:
        self._where = (url, STREAM, brokers)
        self._log = self._opened()
        self._drivers: dict[str, Driver] = {}

    def _opened(self) -> Any:
        # In a topic through the JVM, also for what stands for Airflow: the zip has no other client.
        from airflow_stream_provider.runtime.driver_control import open_control_log

        return open_control_log(*self._where)

    def append(self, kind: str, by: str, fields: Mapping[str, Any]) -> Any:
        from airflow_stream_provider.control.log import make_record

        record = make_record(kind, by, **fields)
        return self._log.propose(lambda state: record).seq

    def state(self) -> Any:
        state = self._log.refresh()
        return {**plain(state), "phase": state.phase.value}

    def heartbeats(self) -> Any:
        return plain(self._log.heartbeats())

    def save(self) -> Any:
        from airflow_stream_provider.lifecycle.saved_state import dump

        self._log.store.put_saved_state(dump(self._log.refresh()))

    def launcher(self, arguments: list[str]) -> Any:
        from airflow_stream_provider.runtime.launcher import _options

        return vars(_options(arguments))

    def driver(self, incarnation: str) -> Any:
        self._drivers[incarnation] = Driver(self._opened(), incarnation)

    def turn(self, incarnation: str) -> Any:
        return self._drivers[incarnation].turn()


def main(archive: str, url: str, brokers: str = "") -> None:
    sys.path.insert(0, archive)
    import airflow_stream_provider

    assert str(airflow_stream_provider.__file__).startswith(archive), airflow_stream_provider.__file__
    from airflow_stream_provider.lifecycle.errors import StreamError

    side = Side(url, brokers)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"answer": getattr(side, order.pop("do"))(**order)}
        except StreamError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
