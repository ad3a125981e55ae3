from __future__ import annotations

from airflow_stream_provider.lag.limits import Health, LagJudgement, LagLimits, LagLook
from tests.support.lag_reports import partition, report


def test_a_look_without_a_report_is_unknown_and_says_why() -> None:
    away = LagLook(5.0, None, "Kafka does not answer.")
    assert away.judge(LagLimits()) == LagJudgement(Health.UNKNOWN, ("Kafka does not answer.",))


def test_a_report_is_judged_by_the_limits() -> None:
    look = LagLook(5.0, report(partition(11)))
    assert [look.judge(LagLimits(max_records=limit)).health for limit in (10, 11)] == [Health.FAIL, Health.PASS]
