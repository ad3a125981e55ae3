"""What Spark gives for a query that runs, without Spark; and a writer that a script has set up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow_stream_provider.runtime.writer_spec import writer_spec_of


class RealRun:
    """Notes what is called on it."""

    id, runId = "of-the-query", "of-the-run"
    status = {"message": "Processing new data"}  # noqa: RUF012 - as Spark's
    lastProgress, recentProgress = {"batchId": 7}, [{"batchId": 7}]

    def __init__(self) -> None:
        self.did: list[str] = []

    def processAllAvailable(self) -> None:
        self.did.append("processAllAvailable")

    def explain(self, extended: bool) -> None:
        self.did.append(f"explain {extended}")

    def stop(self) -> None:
        self.did.append("stop")

    def __getattr__(self, name: str) -> Any:  # it stands for a StreamingQuery
        raise AttributeError(name)


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
