"""Which queries of a holder are ill, and what people read of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.heartbeat import (
    Commit,
    Heartbeat,
    OffsetRange,
    QueryHealth,
    QueryProgress,
    QueryState,
)
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import (
    DESCRIBED,
    ILL_SECONDS,
    NOTED_SECONDS,
    HeartbeatAges,
    QueriesJudgement,
    judge_queries,
    silence_limit,
)
from tests.support.snapshots import RUNNING, snapshot
from tests.support.story import OLD, STOPPED

WELL = QueryProgress("lines", batch=7, health=QueryHealth())
FAILS = QueryHealth("retrying", ILL_SECONDS, 6, "ValueError: bad", batch=8, ranges=(OffsetRange("orders-3", "5", "9"),))


def judged(*queries: QueryProgress) -> QueriesJudgement:
    return judge_queries(replace(snapshot(*RUNNING), heartbeats={OLD: Heartbeat(counter=1, queries=queries)}))


def test_one_that_fails_among_others_that_run_is_ill() -> None:
    found = judged(WELL, QueryProgress("alerts", batch=7, health=FAILS))
    assert (found.health, [query.name for query in found.ill]) == (Health.FAIL, ["alerts"])
    assert str(found) == (
        "The query alerts has failed for 1 min, 6 times since it last got on: ValueError: bad. Batch 8 reads orders-3 "
        "from 5 to 9."
    )


@pytest.mark.parametrize(
    ("health", "batch_seconds", "found"),
    [
        (QueryHealth(), None, Health.PASS),
        (None, None, Health.UNKNOWN),
        (QueryHealth("of a newer driver", 5.0), None, Health.UNKNOWN),
        (replace(FAILS, seconds=ILL_SECONDS - 1), None, Health.UNKNOWN),
        (FAILS, None, Health.FAIL),
        (FAILS, 300.0, Health.FAIL),
        (replace(FAILS, failures=1), 300.0, Health.UNKNOWN),
        (replace(FAILS, failures=1, seconds=600.0), 300.0, Health.FAIL),
        (replace(FAILS, state=QueryState.WAITING.value), None, Health.FAIL),
        (replace(FAILS, state=QueryState.LOST.value, seconds=1.0), None, Health.FAIL),
    ],
)
def test_a_failure_that_is_cured_is_none(
    health: QueryHealth | None, batch_seconds: float | None, found: Health
) -> None:
    query = QueryProgress("alerts", batch=7, batch_seconds=batch_seconds, health=health)
    assert judged(WELL, query).health is found


def test_a_query_of_which_spark_has_said_nothing_yet_is_unknown_so_that_no_incident_ends() -> None:
    assert judged(WELL, replace(WELL, name="new", batch=None)).health is Health.UNKNOWN
    assert judged(WELL, replace(WELL, name="over", batch=None, ended=True)).health is Health.PASS
    assert judge_queries(snapshot(*RUNNING)).health is Health.UNKNOWN
    assert judge_queries(snapshot(*STOPPED)).health is Health.PASS


def test_people_read_what_is_wrong() -> None:
    waits = QueryHealth(QueryState.WAITING.value, 3600.0, error="s3a does not answer.")
    lost = QueryHealth(QueryState.LOST.value, 300.0, 9, "The log ends at 5", "IllegalState: x", 8)
    found = judged(
        QueryProgress("a", health=waits),
        QueryProgress("b", health=lost),
        *[QueryProgress("c", health=FAILS)] * DESCRIBED,
    )
    assert str(found).startswith(
        "The query a has waited for its checkpoint for 1 h: s3a does not answer. "
        "Kafka has lost what the query b is to read, and it is not tried any more: The log ends at 5. It began with "
        "IllegalState: x. It is batch 8. The query c has failed"
    )
    assert str(found).endswith("So it is with 2 more.")
    assert [query.waits for query in found.ill[:2]] == [True, False]


def test_that_a_log_ended_earlier_is_told_for_a_while_though_the_query_runs() -> None:
    noted = replace(WELL, health=QueryHealth(note="It ended earlier.", noted_seconds=NOTED_SECONDS - 1))
    assert (judged(noted).health, str(judged(noted))) == (Health.FAIL, "It ended earlier.")
    later = QueryHealth(note="It ended earlier.", noted_seconds=NOTED_SECONDS)
    assert judged(replace(WELL, health=later)).health is Health.PASS


def test_whether_one_has_committed_in_this_driver() -> None:
    found = judged(QueryProgress("a", commits=(Commit(1.0),), health=FAILS), QueryProgress("b", health=FAILS))
    assert [query.committed for query in found.ill] == [True, False]


def beat(counter: int) -> Snapshot:
    found = snapshot(*RUNNING)
    return Snapshot(found.stream, found.at, found.state, found.records, {OLD: Heartbeat(counter=counter)})


def test_an_age_counts_from_the_first_look_that_saw_the_counter() -> None:
    now = 100.0
    ages = HeartbeatAges(lambda: now)
    assert ages.seconds(beat(1), OLD) == 0.0
    now = 107.0
    assert ages.seconds(beat(1), OLD) == 7.0
    assert ages.seconds(beat(2), OLD) == 0.0
    now = 110.0
    assert ages.seconds(beat(2), OLD) == 3.0


def test_an_observer_that_is_held_up_after_it_has_read_makes_nobody_older() -> None:
    now = 100.0
    ages = HeartbeatAges(lambda: now)
    assert ages.seconds(replace(beat(1), read_at=99.0), OLD) == 0.0
    now = 170.0  # what was read at 101 s is judged only now
    assert ages.seconds(replace(beat(1), read_at=101.0), OLD) == 1.0
    assert ages.seconds(replace(beat(1), read_at=99.5), OLD) == 0.0
    assert ages.seconds(replace(beat(2), read_at=102.0), OLD) == 0.0
    assert ages.seconds(replace(beat(2), read_at=171.0), OLD) == 1.0, "it was first judged at 170 s"


def test_a_driver_counts_as_lost_after_two_leases() -> None:
    assert silence_limit(30.0) == 60.0
