"""Steps and lag samples of a demo that never ran."""

from __future__ import annotations

from airflow_stream_provider.monitoring.samples import LagSample, QuerySample
from demo.history import Change, StepResult
from demo.report import Step

STEPS = [
    Step("deploy 1", 0.0, 5.0, StepResult.DEPLOYED, [Change(None, "one", 3.0)]),
    Step("upgrade to 2", 20.0, 30.0, StepResult.ROLLED_BACK, [Change("one", "two", 22.0), Change("two", "one", 28.0)]),
]


def sample(at: float, records: int | None, seconds: float | None, verdict: str = "OK") -> LagSample:
    queries = {"enrich": QuerySample(records, seconds, verdict), "totals": QuerySample(0, 0.0, "OK")}
    return LagSample(at, queries=queries)


SAMPLES = [
    LagSample(1.0, problem="Kafka does not answer."),
    sample(4.0, 10, 1.5),
    sample(12.0, 20, 0.5),
    sample(25.0, 9000, 20.25, "ERR"),
    sample(27.0, None, None, "UNKNOWN"),
]
