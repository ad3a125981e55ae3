from __future__ import annotations

from airflow_stream_provider.lag.limits import Health, Streaks


def test_a_bad_run_is_ended_by_a_good_look_alone() -> None:
    streaks = Streaks()
    for at, found in enumerate((Health.FAIL, Health.UNKNOWN, Health.UNKNOWN, Health.FAIL)):
        streaks.add(found, float(at))
    assert (streaks.bad, streaks.good, streaks.unknown) == (0.0, None, None)
    streaks.add(Health.PASS, 9.0)
    streaks.add(Health.UNKNOWN, 10.0)
    streaks.add(Health.UNKNOWN, 11.0)
    assert (streaks.bad, streaks.good, streaks.unknown) == (None, 9.0, 10.0)
