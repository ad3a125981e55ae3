from __future__ import annotations

from airflow_stream_provider.monitoring.samples import LagSample
from demo.lag import describe_lag
from tests.support.demo_lag import SAMPLES, STEPS


def test_the_maximum_lag_during_and_between_steps() -> None:
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


def test_an_unknown_lag_is_not_zero() -> None:
    assert describe_lag([LagSample(1.0, problem="away")], STEPS)["steps"]["deploy 1"] == {
        "max_records": None,
        "max_seconds": None,
        "verdicts": {},
        "unknown": 1,
    }
