"""What Spark gives for a query that runs, without Spark; and a writer that a script has set up."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from airflow_stream_provider.runtime.writer_spec import writer_spec_of


class JavaProgress:
    """Spark's object for a progress, or for a part of one, of which this is the JSON."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def json(self) -> str:
        return json.dumps(self._body)

    def __getattr__(self, name: str) -> Any:
        value = self._body[name]
        if name in ("id", "runId"):
            return lambda: SimpleNamespace(toString=lambda: value)
        if name in ("sources", "stateOperators"):
            return lambda: [JavaProgress(part) for part in value]
        return lambda: JavaProgress(value) if name == "sink" else value


def progress_json(batch: int, **more: Any) -> dict[str, Any]:
    """What Spark says of a batch of a query that has read one file for it."""
    offsets = {"startOffset": {"logOffset": batch - 1}, "endOffset": {"logOffset": batch}, "latestOffset": None}
    rows = {"numInputRows": 20, "inputRowsPerSecond": 10.0, "processedRowsPerSecond": 40.0}
    return {
        "id": "00000000-0000-0000-0000-00000000000a",
        "runId": "00000000-0000-0000-0000-0000000000aa",
        "name": "lines",
        "timestamp": "2026-11-27T00:00:00.000Z",
        "batchId": batch,
        "batchDuration": 500,
        **rows,
        "durationMs": {"addBatch": 400, "triggerExecution": 500},
        "eventTime": {},
        "stateOperators": [],
        "sources": [{"description": "FileStreamSource[file:/in]", **offsets, **rows, "metrics": {}}],
        "sink": {"description": "FileSink[/out]", "numOutputRows": -1, "metrics": {}},
        "observedMetrics": {},
        **more,
    }


class RealRun:
    """Notes what is called on it."""

    id, runId = "of-the-query", "of-the-run"
    status = {"message": "Processing new data"}  # noqa: RUF012 - as Spark's
    isActive = True

    def __init__(self, *batches: int) -> None:
        self.did: list[str] = []
        self.said = [JavaProgress(progress_json(batch)) for batch in batches or [7]]
        self._jsq = SimpleNamespace(recentProgress=lambda: self.said)

    @property
    def recentProgress(self) -> list[Any]:
        return [json.loads(each.json()) for each in self.said]

    @property
    def lastProgress(self) -> Any:
        return self.recentProgress[-1] if self.said else None

    def processAllAvailable(self) -> None:
        self.did.append("processAllAvailable")

    def explain(self, extended: bool) -> None:
        self.did.append(f"explain {extended}")

    def stop(self) -> None:
        self.did.append("stop")

    def __getattr__(self, name: str) -> Any:  # it stands for a StreamingQuery
        raise AttributeError(name)


class Told:
    """Notes what a query says, in the place of the gate."""

    holds = True

    def __init__(self) -> None:
        self.waits = self.ended = 0

    def script_waits(self) -> None:
        self.waits += 1

    def query_ended(self, query: object) -> None:
        self.ended += 1


def real_run() -> Any:
    """A new run."""
    return RealRun()


def writer(checkpoint: str, name: str = "") -> Any:
    """A writer with this checkpoint, as far as the runtime notes it."""
    jvm = SimpleNamespace(sessionState=lambda: SimpleNamespace(newHadoopConf=dict))
    made: Any = SimpleNamespace(_spark=SimpleNamespace(conf={}, _jsparkSession=jvm))
    spec = writer_spec_of(made)
    spec.options["checkpointlocation"], spec.name = checkpoint, name
    return made
