"""Measure the lag of the stream during the demo, independently of the stream's DAGs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.lag.report import Ceilings
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample, queries_of
from airflow_stream_provider.spec.stream import StreamSpec
from demo.report import Step

# Often enough to see a hand-over, but without much load on two cores.
PACE_SECONDS = 2.0


class LagWatcher:
    """Measures the lag of a stream every two seconds while its `with` block runs. `samples` has the results in order.

    :param spec: the stream.
    :param brokers: bootstrap servers of its Kafka.
    """

    def __init__(self, spec: StreamSpec, brokers: str) -> None:
        self.samples: list[LagSample] = []
        self._spec = spec
        self._extra = {"bootstrap.servers": brokers}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag", daemon=True)

    def __enter__(self) -> LagWatcher:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._watch()
            except StreamError as error:
                self.samples.append(LagSample(time.time(), problem=error.message))
                self._stopped.wait(PACE_SECONDS)

    def _watch(self) -> None:
        """Measure on one connection until stopped; raise StreamError if Kafka does not answer."""
        from airflow_stream_provider.kafka.client import KafkaClient
        from airflow_stream_provider.lag.limits import Moments
        from airflow_stream_provider.lag.reader import LagReader
        from airflow_stream_provider.lag.targets import LagTarget

        target = LagTarget("demo", self._spec.name, self._spec.control)
        with KafkaClient("demo", self._extra) as client:
            reader = LagReader(client, control_root)
            while not self._stopped.is_set():
                report = reader.read({target: Moments()})[target]
                if isinstance(report, StreamError):
                    self.samples.append(LagSample(time.time(), problem=report.message))
                else:
                    self.samples.append(LagSample(report.at, queries=queries_of(report, Ceilings())))
                self._stopped.wait(PACE_SECONDS)


def describe_lag(samples: Sequence[LagSample], steps: Iterable[Step]) -> dict[str, Any]:
    """Return the lag for the report: the maximum during each step and between the steps, and all samples.

    Times are in seconds. Unknown values are null; `unknown` counts them.
    """
    during = {step.name: [s for s in samples if step.started <= s.at <= step.ended] for step in steps}
    within = {id(sample) for found in during.values() for sample in found}
    between = [sample for sample in samples if id(sample) not in within]
    return {
        "steps": {name: _worst(found) for name, found in during.items()},
        "between": _worst(between),
        "samples": [
            {
                "at": round(sample.at, 3),
                "queries": {name: _numbers(query) for name, query in sample.queries.items()},
                **({"problem": sample.problem} if sample.problem else {}),
            }
            for sample in samples
        ],
    }


def _worst(samples: Sequence[LagSample]) -> dict[str, Any]:
    queries = [query for sample in samples for query in sample.queries.values()]
    verdicts: dict[str, int] = {}
    for query in queries:
        verdicts[query.verdict] = verdicts.get(query.verdict, 0) + 1
    return {
        "max_records": max((q.records for q in queries if q.records is not None), default=None),
        "max_seconds": max((q.seconds for q in queries if q.seconds is not None), default=None),
        "verdicts": verdicts,
        "unknown": sum(not s.queries or any(q.records is None for q in s.queries.values()) for s in samples),
    }


def _numbers(query: QuerySample) -> dict[str, Any]:
    return {"records": query.records, "seconds": query.seconds, "verdict": query.verdict, "alarms": list(query.alarms)}
