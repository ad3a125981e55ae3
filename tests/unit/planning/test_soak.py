from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.report import LagReport, PartitionLag, PartitionState, QueryLag
from airflow_stream_provider.lag.report import Verdict as Burrow
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryHealth, QueryProgress
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.soak import (
    SoakLimits,
    SoakLook,
    SoakResult,
    judge_soak,
    lag_known,
    soak_look,
    too_far,
)
from airflow_stream_provider.planning.stream_health import RunJudgement
from tests.support.snapshots import UPGRADED, snapshot
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    fenced,
    ready,
    record,
    released,
    requested,
    wanted,
)

LIMITS = SoakLimits(LagLimits(max_records=100, max_seconds=30.0), samples=3)


def report(records: int | None, **fields: Any) -> LagReport:
    """One query, so far behind, for as many seconds as are given."""
    query = {"seconds": 0.0, **fields}
    partition = query.pop("partition", {"verdict": Burrow.OK})
    known = PartitionLag("in", 0, PartitionState.OK, committed=0, log_start=0, end=records, **partition)
    return LagReport(1.0, (QueryLag("q", (known,), **query),))


def samples(*records: int | None, late: bool = False, starting: int = 0, batch: float = 0.0) -> list[SoakLook]:
    """Looks every ten seconds; before the first commit in the first `starting` of them."""
    found = [(count, behind(report(count, seconds=31.0 if late else 0.0))) for count in records]
    return [
        SoakLook(
            holding="new",
            lag_records=count,
            too_far=too_far(look, LIMITS),
            lag_known=lag_known(look, LIMITS),
            at=1000.0 + 10 * index,
            starting=index < starting,
            batch_seconds=batch,
        )
        for index, (count, look) in enumerate(found)
    ]


def behind(lag: LagReport | None) -> Snapshot:
    """A stream that has just been upgraded, with this lag."""
    return replace(snapshot(*UPGRADED), lag=lag)


@pytest.mark.parametrize(
    ("seen", "result"),
    [
        ([], SoakResult.GOOD),
        (samples(0, 0, 0), SoakResult.GOOD),
        (samples(101, 101), SoakResult.UNDECIDED),  # not often enough yet
        (samples(0, 101, 102, 103), SoakResult.UNDECIDED),  # not for long enough yet
        (samples(0, 101, 102, 103, 104), SoakResult.BAD),
        (samples(0, 101, 99, 103), SoakResult.UNDECIDED),  # a saw-tooth
        (samples(0, 101, 102, 103, 99), SoakResult.GOOD),
        (samples(5000, 4000, 3000, 2000), SoakResult.GOOD),  # behind before, catching up
        (samples(5000, 5000, 5001, 5002), SoakResult.BAD),  # behind before, and not catching up
        (samples(2500, *[2400] * 3), SoakResult.GOOD),
        (samples(2500, *[2400] * 4), SoakResult.BAD),  # the first look is not what it is held against
        (samples(1000, 3000, 2500, 2000, 1500, 1200, starting=2), SoakResult.GOOD),
        (samples(500, 900, 800, 1000, 700, 900, 600), SoakResult.GOOD),  # a saw-tooth that sinks
        (samples(500, 900, 800, 1000, 900, 1100, 1000, batch=5.0), SoakResult.BAD),  # one that rises
        (samples(500, 900, 1300, 1700, batch=40.0), SoakResult.UNDECIDED),  # too short for its batches
        # The one look before was made at the top of a tooth.
        (samples(0, 9000, 5000, 6000, 7000, 8000, batch=20.0), SoakResult.UNDECIDED),
        (samples(0, 9000, 5000, 6000, 9500, 6500, 7500, 10000, batch=20.0), SoakResult.BAD),
        (samples(0, 9000, 7000, 8000, 5000, 6000, 3000, 4000, batch=20.0), SoakResult.GOOD),
        (samples(100, 1000, 2000, 3000, 4000, 5000, 6000, starting=7), SoakResult.UNDECIDED),  # its first batch runs
        (samples(100, 1000, 2000, 3000, 4000, 5000, 6000, starting=4), SoakResult.UNDECIDED),
        (samples(100, 1000, 2000, 3000, 4000, 5000, 6000, starting=3), SoakResult.BAD),  # it never commits
        (samples(0, 0, starting=2), SoakResult.GOOD),  # there is nothing to commit
        (samples(None, None, starting=2), SoakResult.UNDECIDED),
        (samples(10, 20, 30, 40, late=True), SoakResult.BAD),  # few records, but old ones
        (samples(None, None, None, None), SoakResult.GOOD),  # unknown is not bad
        (samples(0, 101, None, 103), SoakResult.UNDECIDED),
        (samples(0, 101, None, 102, 103), SoakResult.BAD),  # nor does it hide what is
        ([SoakLook(holding=None)], SoakResult.BAD),
        ([SoakLook(holding="old")], SoakResult.BAD),  # taken back
        ([SoakLook(holding="newer", superseded="newer took over since.")], SoakResult.SUPERSEDED),
        ([SoakLook(holding=None, run=RunJudgement(Health.UNKNOWN))], SoakResult.UNDECIDED),  # another's hand-over
        ([SoakLook(holding=None, ended="failed", reason="no memory")], SoakResult.BAD),
        ([SoakLook(holding="new", run=RunJudgement(Health.FAIL, "No sign of life."))], SoakResult.BAD),
        ([SoakLook(holding="new", run=RunJudgement(Health.UNKNOWN))], SoakResult.GOOD),  # so far; it must beat to pass
    ],
)
def test_verdicts(seen: list[SoakLook], result: SoakResult) -> None:
    assert judge_soak("new", seen, LIMITS).result is result


def test_no_limits_judge_no_lag() -> None:
    assert not too_far(behind(report(10**9, seconds=10**9)), SoakLimits())
    assert not too_far(behind(None), LIMITS)


@pytest.mark.parametrize(
    ("found", "bad"),
    [
        (report(5, partition={"verdict": Burrow.STOP}), False),  # for a while: its machine may be busy
        (report(5, partition={"verdict": Burrow.STALL}), True),
        (report(5, partition={"verdict": Burrow.WARN}), False),
        (report(5, retention_seconds=60.0), True),
        (report(5, held_seconds=5000.0), False),  # a transaction that hangs is a producer's, not the release's
        (report(5, recreated=("in",)), False),  # nor has a release made a topic anew
    ],
)
def test_verdicts_and_alarms_count_without_any_limit(found: LagReport, bad: bool) -> None:
    assert bool(too_far(behind(found), SoakLimits(LagLimits()))) is bad


def test_a_query_that_stops_committing_is_in_doubt_until_it_hangs() -> None:
    """A machine that stood still for a minute had a good release rolled back; nobody was asked."""
    limits = SoakLimits(LagLimits(), samples=3)

    def result(silent: float) -> SoakResult:
        said = report(5, partition={"verdict": Burrow.STOP}, commit_age=silent, unread_for={600.0: silent > 600.0})
        seen = [replace(snapshot(*UPGRADED, at=5000.0 + 10 * n), lag=said) for n in range(6)]
        looks = [soak_look(each, NEW_DEPLOYMENT, "run", 0.0, limits) for each in seen]
        return judge_soak(NEW_DEPLOYMENT, looks, limits).result

    assert result(90.0) is SoakResult.UNDECIDED
    assert result(700.0) is SoakResult.BAD


def test_a_lag_that_is_known_in_part_is_not_known() -> None:
    """The watch calls it unknown too; what lies in the other partitions may be the reason to roll back."""
    one, other = report(5).queries[0].partitions[0], report(None).queries[0].partitions[0]
    half = replace(report(5), queries=(QueryLag("q", (one, replace(other, partition=1)), seconds=0.0),))
    assert (half.records, lag_known(behind(half), LIMITS)) == (5, False)
    assert lag_known(behind(report(5)), LIMITS)
    assert not lag_known(behind(report(5, seconds=None)), LIMITS), "its age is limited, and not known"


def test_verdicts_that_are_not_known_yet_hold_no_soak_up() -> None:
    assert lag_known(behind(report(5, partition={"verdict": None})), LIMITS)


def test_the_limits_survive_the_metadata_database() -> None:
    assert SoakLimits.from_json(LIMITS.to_json()) == LIMITS
    assert SoakLimits.from_json(SoakLimits().to_json()) == SoakLimits()


def test_the_start_up_time_is_a_minute_or_three_leases() -> None:
    assert SoakLimits.of(None, 10.0) == SoakLimits(start_up_seconds=60.0)
    assert SoakLimits.of(None, 30.0) == SoakLimits(start_up_seconds=90.0)


def test_a_look_tells_whether_the_holder_has_committed() -> None:
    def look(batch: int | None, at: float) -> SoakLook:
        # Of an idle query, Spark names the batch that an earlier driver has committed.
        progress = QueryProgress(
            "a", batch=batch or 2, batch_seconds=batch and 7.0, commits=(Commit(1.0),) * bool(batch)
        )
        beat = Heartbeat(counter=1, queries=(progress,))
        found = replace(snapshot(*UPGRADED, at=at), heartbeats={NEW: beat})  # it took over at 100
        return soak_look(found, NEW_DEPLOYMENT, "run", 0.0, SoakLimits())

    assert (look(None, 159.0).starting, look(3, 159.0).starting, look(None, 161.0).starting) == (True, False, False)
    assert (look(None, 159.0).batch_seconds, look(3, 159.0).batch_seconds, look(3, 159.0).at) == (0.0, 7.0, 159.0)


def test_a_lag_between_two_batches_of_a_query_that_waits_by_design_is_no_fault() -> None:
    """Its lag is a saw-tooth whose teeth are as long as its trigger: a look within one says nothing."""
    limits = SoakLimits(LIMITS.lag, samples=3)
    made: dict[str, Any] = {"batch": 3, "batch_seconds": 7.0, "commits": (Commit(1.0),)}
    over = QueryProgress("backfill", batch=9, ended=True)  # for good, beside it

    def result(**said: Any) -> SoakResult:
        beat = Heartbeat(counter=1, queries=(QueryProgress("q", **made, **said), over))
        seen = [
            replace(snapshot(*UPGRADED, at=200.0 + 10 * n), heartbeats={NEW: beat}, lag=report(200 + n))
            for n in range(20)
        ]
        looks = [soak_look(each, NEW_DEPLOYMENT, "run", 0.0, limits) for each in seen]
        return judge_soak(NEW_DEPLOYMENT, looks, limits).result

    assert result(quiet_seconds=0.0) is SoakResult.BAD
    assert result(quiet_seconds=60.0) is SoakResult.BAD, "for more than two of its triggers"
    assert result(quiet_seconds=600.0) is SoakResult.UNDECIDED
    assert result(quiet_seconds=0.0, ended=True) is SoakResult.UNDECIDED, "between two runs of a loop"


THEIRS = "airflow:other/run/x"
AWAY = [
    wanted("away", family="old", by=THEIRS),
    requested("x", OLD, wish="away"),
    ready("x", OLD),
    released(NEW, "x", OLD),
]
STOP = [wanted("rest", "stop", by=THEIRS), requested("x", None, wish="rest"), released(NEW, "x", None)]
SINCE = f"Record {len(UPGRADED) + 1} asks for something else since, by {THEIRS} (a person wants it)."
CHANGES = [requested("x", OLD), ready("x", OLD), released(NEW, "x", OLD)]
APPOINTED = [requested("y", OLD, by="airflow:watch/run/y"), ready("y", OLD), acquired(OLD, "y", 3)]


@pytest.mark.parametrize(
    ("since", "result", "says"),
    [
        ([], SoakResult.GOOD, ""),
        (CHANGES, SoakResult.UNDECIDED, "The stream changes hands."),  # the watch says the same
        (AWAY[:1], SoakResult.SUPERSEDED, SINCE),
        ([*AWAY, acquired(OLD, "x", 3)], SoakResult.SUPERSEDED, SINCE),
        ([*AWAY, acquired(OLD, "x", 3), wanted("b", family="new", by=THEIRS)], SoakResult.BAD, "It does not hold"),
        ([*CHANGES, acquired(NEW, "x", 3)], SoakResult.GOOD, ""),  # taken back
        (STOP, SoakResult.SUPERSEDED, SINCE),
        ([*STOP, *APPOINTED], SoakResult.SUPERSEDED, SINCE),
        ([fenced(NEW)], SoakResult.BAD, "It does not hold the stream any more. Nobody runs it (down)."),
        # It died, and the watch appointed what was there: the watch tells people of it, so this is no success.
        ([fenced(NEW), *APPOINTED], SoakResult.BAD, f"It does not hold the stream any more. {OLD_DEPLOYMENT} does."),
        ([*AWAY, acquired(OLD, "x", 3), fenced(OLD)], SoakResult.SUPERSEDED, SINCE),
    ],
)
def test_what_became_of_the_stream_since(since: list[Record], result: SoakResult, says: str) -> None:
    look = soak_look(snapshot(*UPGRADED, *since), NEW_DEPLOYMENT, "airflow:dag/run/", 0.0, SoakLimits())
    found = judge_soak(NEW_DEPLOYMENT, [look], SoakLimits())
    assert found.result is result, found
    assert found.reason.startswith(says)


def test_a_driver_that_gives_no_sign_of_life_is_bad_after_two_leases() -> None:
    def judged(silent: float) -> SoakResult:
        look = soak_look(snapshot(*UPGRADED), NEW_DEPLOYMENT, "airflow:dag/run/", silent, SoakLimits())
        return judge_soak(NEW_DEPLOYMENT, [look], SoakLimits()).result

    assert (judged(59.0), judged(60.0)) == (SoakResult.GOOD, SoakResult.BAD)


def test_the_reason_is_for_a_person() -> None:
    found = judge_soak("new", samples(0, 200, 300, 400, 500), LIMITS)
    said = "For 30 s it was too far behind and did not catch up. q is behind by 500 records; 100 are allowed."
    assert found.reason == said
    assert judge_soak("new", [SoakLook("old", ended="failed", reason="No.")], LIMITS).reason == "It failed: No."


@pytest.mark.parametrize(
    ("state", "commits", "result"),
    [
        ("retrying", (), SoakResult.BAD),
        ("lost", (), SoakResult.BAD),
        ("waiting", (), SoakResult.UNDECIDED),
        ("retrying", (Commit(1.0),), SoakResult.UNDECIDED),
        ("running", (), SoakResult.GOOD),
    ],
)
def test_a_query_that_fails_is_the_fault_of_a_release_under_which_it_has_never_committed(
    state: str, commits: tuple[Commit, ...], result: SoakResult
) -> None:
    """Found by a review: of three queries one failed for ever, and the soak passed."""
    health = QueryHealth(state, 90.0, 6, "ValueError: bad")
    beat = Heartbeat(counter=5, queries=(QueryProgress("alerts", batch=1, commits=commits, health=health),))
    look = replace(snapshot(*UPGRADED), heartbeats={NEW: beat})
    judged = judge_soak(NEW_DEPLOYMENT, [soak_look(look, NEW_DEPLOYMENT, "run", 0.0, SoakLimits())], SoakLimits())
    assert (judged.result, "alerts" in judged.reason) == (result, result is not SoakResult.GOOD)


def test_a_kafka_that_does_not_answer_is_not_the_fault_of_a_release() -> None:
    said = [{"name": "alerts", "checkpoint": "/a", "kafka_sources": [{"topics": "in"}]}]
    up = record("standby", deployment=NEW_DEPLOYMENT, incarnation=NEW, queries=said, rehearsal={})
    records = [up if r.kind == Kind.STANDBY and r["incarnation"] == NEW else r for r in UPGRADED]
    health = QueryHealth("retrying", 90.0, 6, "TimeoutException")
    beat = Heartbeat(counter=5, queries=(QueryProgress("alerts", health=health),))
    look = replace(snapshot(*records), heartbeats={NEW: beat})
    for lag, result in ((None, SoakResult.UNDECIDED), (report(5), SoakResult.BAD)):
        found = soak_look(replace(look, lag=lag), NEW_DEPLOYMENT, "run", 0.0, LIMITS)
        assert judge_soak(NEW_DEPLOYMENT, [found], LIMITS).result is result
