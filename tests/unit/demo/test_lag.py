from __future__ import annotations

from pathlib import Path

from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample
from demo.history import Change, StepResult
from demo.lag import describe_lag
from demo.lag_picture import draw_lag
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


def test_the_worst_of_each_step_and_of_the_times_between() -> None:
    found = describe_lag(SAMPLES, STEPS)
    assert found["steps"]["deploy 1"] == {
        "max_records": 10,
        "max_seconds": 1.5,
        "verdicts": {"OK": 2},
        "unknown": 1,
    }
    assert found["steps"]["upgrade to 2"]["max_records"] == 9000
    assert found["steps"]["upgrade to 2"]["unknown"] == 1
    assert found["steps"]["upgrade to 2"]["verdicts"] == {"ERR": 1, "OK": 2, "UNKNOWN": 1}
    assert found["between"] == {"max_records": 20, "max_seconds": 0.5, "verdicts": {"OK": 2}, "unknown": 0}
    assert [set(each["queries"]) for each in found["samples"]] == [set()] + [{"enrich", "totals"}] * 4
    assert found["samples"][0]["problem"] == "Kafka does not answer."


def test_what_nobody_knows_is_not_zero() -> None:
    assert describe_lag([LagSample(1.0, problem="away")], STEPS)["steps"]["deploy 1"] == {
        "max_records": None,
        "max_seconds": None,
        "verdicts": {},
        "unknown": 1,
    }


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    draw_lag(tmp_path / "lag.png", SAMPLES, STEPS, LagLimits(1500, 10.0))
    assert (tmp_path / "lag.png").read_bytes().startswith(b"\x89PNG")
    draw_lag(tmp_path / "none.png", [], STEPS, LagLimits())
    assert (tmp_path / "none.png").read_bytes().startswith(b"\x89PNG")
