"""Whoever ends a job, or a driver to start another, may be lost right after: people are told, and the watch goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rules import check
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.monitoring.health import symptoms
from airflow_stream_provider.monitoring.incidents import IncidentKind
from airflow_stream_provider.planning.adopt import adopt
from airflow_stream_provider.planning.begun import (
    ADOPT_SECONDS,
    BY_ITSELF_SECONDS,
    RESTART_SECONDS,
    TELL_SECONDS,
    left_to_its_run,
)
from airflow_stream_provider.planning.recover import recover, revival_is_due
from airflow_stream_provider.planning.recovery_decision import RecoveryAction, recovery_step
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.start import start
from airflow_stream_provider.planning.steps import Append, GiveUp, Skip, Step, TaskIdentity, Wait
from airflow_stream_provider.planning.stop import stop
from airflow_stream_provider.planning.stream_health import judge_run
from airflow_stream_provider.planning.take_over import take_over
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import ME, appended, snapshot, up
from tests.support.story import (
    FOLLOWING,
    JOB_ENDING,
    JOB_GONE,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    RUNNING,
    STOPPED,
    aborted,
    ending,
    failed,
    fenced,
    finished,
    following,
    record,
    released,
    requested,
    retired,
    standby,
    stopped,
    submitted,
)

WATCH = TaskIdentity("streams__revive", "run", "revive")
RUNS = UnmanagedView("driver-1", DriverState.RUNNING, "driver driver-1", Remains(("It runs.",)))
GONE = UnmanagedView("driver-1", DriverState.KILLED, "driver driver-1")
LATER = 86_400.0


def look(*records: Record, at: float = LATER, job: UnmanagedView | None = None) -> Snapshot:
    return replace(snapshot(*records, at=at), job=job, heartbeats={OLD: Heartbeat(counter=5, at=at)})


def down(seen: Snapshot) -> tuple[Health, str]:
    found = symptoms(seen, None, None, 300.0)[IncidentKind.DOWN]
    return found.health, found.description


def revive(seen: Snapshot, *, lives: bool | None = None) -> Step:
    evidence = {} if lives is None else {OLD: lives}
    outcome = WaitOutcome(Ended.REACHED, SignsOfLife.SUBJECT, evidence=evidence, counters={OLD: 5})
    return recover(seen, WATCH, None if lives is None else outcome, {})


@pytest.mark.parametrize(
    ("records", "what"),
    [
        (JOB_ENDING, "driver-1 was to be ended, for orders-1-aaaa to follow it"),
        ([*JOB_ENDING, fenced(OLD)], "nobody has confirmed that it is gone"),
        ([*JOB_ENDING, retired(OLD_DEPLOYMENT)], "nobody has confirmed that it is gone"),
        ([*FOLLOWING, ending(OLD_DEPLOYMENT, "")], "A person was asked to end the job that orders-1-aaaa is to follow"),
        ([*JOB_GONE, aborted("adopt", at=400.0)], "As a rule somebody else writes the checkpoint"),
        ([*JOB_GONE, aborted("adopt", at=400.0), retired(OLD_DEPLOYMENT)], "somebody else writes the checkpoint"),
        ([*JOB_GONE, fenced(OLD), aborted("adopt")], "Nobody runs it (down)."),
        ([*STOPPED, following("orders-3-cccc"), ending("orders-3-cccc")], "for orders-3-cccc to follow it"),
    ],
)
def test_people_are_told_wherever_an_adoption_is_cut_off_after_the_intent_to_end_the_job(
    records: list[Record], what: str
) -> None:
    health, says = down(look(*records))
    assert (health, what in says) == (Health.FAIL, True), says


def test_nobody_is_told_while_whoever_ends_the_job_sees_to_it_or_before_he_began() -> None:
    assert down(look(*FOLLOWING))[0] is Health.PASS, "the old job runs, and nobody has touched it"
    assert down(look(*JOB_ENDING, at=150.0))[0] is Health.UNKNOWN
    assert down(look(*JOB_ENDING, at=161.0))[0] is Health.FAIL, "within two looks of the watch"


def test_a_person_who_stops_the_stream_or_a_driver_that_holds_ends_the_alarm() -> None:
    for rests in ([*JOB_ENDING, stopped("it runs on")], [*JOB_GONE, aborted("adopt", at=400.0), stopped("enough")]):
        seen = look(*rests)
        assert (seen.state.phase, down(seen)[0]) == (StreamPhase.STOPPED, Health.PASS)
        assert not revival_is_due(seen, {}, cluster_answers=True)


def test_the_watch_asks_the_cluster_about_the_job_and_appoints_the_follower_once_it_is_gone() -> None:
    cut_off = look(*JOB_ENDING)
    assert revival_is_due(cut_off, {OLD: True}, cluster_answers=True)
    assert not revival_is_due(cut_off, {OLD: True}, cluster_answers=False)
    assert not revival_is_due(look(*JOB_ENDING, at=150.0), {OLD: True}, cluster_answers=True), "he sees to it himself"
    for job in (
        None,
        RUNS,
        replace(GONE, remains=Remains((), ("Worker w is DEAD.",))),
        replace(GONE, state=DriverState.LOST),
    ):
        assert isinstance(revive(replace(cut_off, job=job), lives=True), Skip)
    gone = replace(cut_off, job=GONE)
    assert isinstance(revive(gone), Wait), "first a sign of life"
    step = revive(gone, lives=True)
    assert isinstance(step, Append)
    assert (step.kind, step.fields["to"]) == ("requested", OLD)
    assert step.fields["evidence"] == {"job": "driver-1", "state": "killed"}


def test_another_driver_of_its_release_comes_up_where_the_follower_has_died() -> None:
    assert appended(revive(look(*JOB_ENDING, job=GONE), lives=False), "again") == ("declared", OLD_DEPLOYMENT)
    lost = look(*JOB_GONE, fenced(OLD), aborted("adopt"))
    assert revival_is_due(replace(lost, at=400.0), {OLD_DEPLOYMENT: False}, cluster_answers=True)
    gone = DriverFacts("driver-2", DriverState.KILLED, gone=True)
    assert appended(revive(replace(lost, drivers={OLD_DEPLOYMENT: gone})), "deployment") == ("failed", OLD_DEPLOYMENT)
    ended = look(*JOB_GONE, fenced(OLD), aborted("adopt"), failed(None, OLD_DEPLOYMENT))
    assert appended(revive(ended), "again") == ("declared", OLD_DEPLOYMENT)
    again = Record(
        "declared",
        {**dict(ended.declared(OLD_DEPLOYMENT).fields), "deployment": "orders-1-cccc", "again": OLD_DEPLOYMENT},
        at=400.0,
    )
    assert not look(*JOB_GONE, fenced(OLD), aborted("adopt"), failed(None, OLD_DEPLOYMENT), again).state.follower


def test_nobody_goes_on_by_himself_where_the_logs_have_moved_or_only_a_person_knows() -> None:
    moved = look(*JOB_GONE, aborted("adopt", at=400.0))
    asked = look(*FOLLOWING, ending(OLD_DEPLOYMENT, ""))
    for seen in (moved, asked):
        assert not revival_is_due(seen, {OLD: True}, cluster_answers=True)
        assert isinstance(revive(replace(seen, job=GONE), lives=True), Skip)


ENDS_OF_FOLLOWER = (retired(OLD_DEPLOYMENT), failed(OLD))


def appointed(seen: Snapshot) -> Step:
    return take_over(seen, ME, NEW_DEPLOYMENT, None, "why")


def test_no_driver_is_appointed_without_an_adoption_while_the_job_that_one_is_to_follow_may_write() -> None:
    both = look(*FOLLOWING, *up(NEW))
    for step in (
        take_over(both, ME, NEW_DEPLOYMENT, None, "why"),
        take_over(both, ME, OLD_DEPLOYMENT, None, "why"),  # the follower: its job may only wait for data
        start(look(*FOLLOWING), ME, "1", None, "why"),
        start(look(*JOB_ENDING), ME, "1", None, "why"),
        *(appointed(look(*JOB_ENDING, end, *up(NEW))) for end in ENDS_OF_FOLLOWER),
        *(start(look(*JOB_ENDING, end), ME, "1", None, "why") for end in ENDS_OF_FOLLOWER),
    ):
        assert isinstance(step, GiveUp)
        assert "orders-1-aaaa is to follow a job that may write its checkpoints still." in str(step.error)
        assert "Adopt that job (`airflow streams adopt`), by its id or by your word" in step.error.next_step
        assert "stop the stream" in step.error.next_step


@pytest.mark.parametrize("end", ENDS_OF_FOLLOWER)
def test_a_job_whose_follower_has_ended_is_confirmed_gone_by_an_adoption_the_watch_or_a_person_who_stops_the_stream(
    end: Record,
) -> None:
    left = [*JOB_ENDING, end]
    again = [*left, following("orders-3-cccc"), submitted("orders-3-cccc"), standby("orders-3-cccc.00000003")]
    step = adopt(look(*again), ME, "orders-3-cccc", None, "why", confirmed_by="Ada")
    assert isinstance(step, Append)
    assert (step.kind, step.fields["to"]) == ("requested", "orders-3-cccc.00000003")
    assert step.fields["evidence"] == {"person": "Ada"}
    check(look(*again).state, record(step.kind, **step.fields))
    by_its_id = adopt(look(*again, job=GONE), ME, "orders-3-cccc", None, "why", job="driver-1")
    assert isinstance(by_its_id, Append)
    assert by_its_id.fields["evidence"] == {"job": "driver-1", "state": "killed"}
    assert appended(revive(look(*left, job=GONE)), "again") == ("declared", OLD_DEPLOYMENT)
    assert appended(appointed(look(*left, stopped("it is gone"), *up(NEW)))) == ("requested",)


# -- a stop that a start is to follow ----------------------------------------------------------------------------------

RESTARTING = [*RUNNING, requested("stop", None, until=300.0), released(OLD, "stop", None)]


def test_a_stop_for_a_start_says_so_and_that_it_is_not_for_good() -> None:
    step = stop(snapshot(*RUNNING), ME, None, "why", restarts=True)
    assert isinstance(step, Append)
    assert step.fields["until"] == step.fields["expires"] + RESTART_SECONDS
    step = stop(snapshot(*RUNNING, fenced(OLD)), ME, None, "why", restarts=True)
    assert appended(step, "until") == ("stopped", 110.0 + RESTART_SECONDS)
    assert "until" not in stop(snapshot(*RUNNING), ME, None, "why").fields  # type: ignore[union-attr]


def test_a_restart_that_is_cut_off_is_down_and_told_and_what_ran_before_is_brought_back() -> None:
    assert look(*RESTARTING).state.phase is StreamPhase.DOWN
    assert down(look(*RESTARTING, at=299.0))[0] is Health.UNKNOWN
    assert isinstance(revive(look(*RESTARTING, at=299.0)), Skip)
    assert not revival_is_due(look(*RESTARTING, at=299.0), {OLD: True}, cluster_answers=True)
    late = look(*RESTARTING, at=301.0)
    assert down(late)[0] is Health.FAIL
    assert recovery_step(late.state, {OLD: True}, late.at).action is RecoveryAction.REQUEST
    retire = look(*RESTARTING, retired(OLD_DEPLOYMENT), at=301.0)
    assert recovery_step(retire.state, {}, retire.at).action is RecoveryAction.DECLARE
    assert revival_is_due(retire, {}, cluster_answers=True)


def test_a_release_that_comes_up_since_is_left_to_its_run_and_people_are_told_when_that_takes_long() -> None:
    both = [*RESTARTING, retired(OLD_DEPLOYMENT), *up(NEW)]
    declared_at = 100.0
    for seconds, health in ((TELL_SECONDS - 1, Health.UNKNOWN), (TELL_SECONDS + 1, Health.FAIL)):
        seen = look(*both, at=declared_at + seconds)
        assert down(seen)[0] is health
        assert recovery_step(seen.state, {NEW: True}, seen.at).action is RecoveryAction.WAIT
    late = look(*both, at=declared_at + BY_ITSELF_SECONDS + 1)
    step = recovery_step(late.state, {NEW: True}, late.at)
    assert (step.action, step.subject) == (RecoveryAction.DECLARE, OLD_DEPLOYMENT), "never what nobody has seen to hold"
    ended = look(*both, retired(NEW_DEPLOYMENT), at=301.0)
    assert recovery_step(ended.state, {}, ended.at).action is RecoveryAction.DECLARE, "at once, if it is given up"


def test_a_restart_that_dies_between_declared_and_submitted_is_soon_nobodys() -> None:
    lost = [*RESTARTING, retired(OLD_DEPLOYMENT), next(record for record in up(NEW) if record.kind == "declared")]
    submits = replace(look(*lost), at=100.0 + ADOPT_SECONDS - 1)
    assert left_to_its_run(submits.state, submits.at), "its task submits it"
    late = look(*lost, at=301.0)
    assert down(late)[0] is Health.FAIL
    step = recovery_step(late.state, {}, late.at)
    assert (step.action, step.subject) == (RecoveryAction.DECLARE, OLD_DEPLOYMENT)
    assert revival_is_due(late, {}, cluster_answers=True)
    unheard = look(*lost, *(record for record in up(NEW) if record.kind == "standby"), at=301.0)
    assert left_to_its_run(unheard.state, unheard.at), "it is up, and only its submission was not written down"


def test_what_a_person_had_stopped_stays_so_when_an_upgrade_that_would_have_stopped_it_is_cut_off() -> None:
    again = [*STOPPED, stopped("mine", until=300.0)]
    assert look(*again).state.phase is StreamPhase.STOPPED
    assert look(*RESTARTING, stopped("enough")).state.phase is StreamPhase.STOPPED, "by a person, since"
    lost = look(*RUNNING, fenced(OLD), stopped("mine", until=300.0), at=301.0)
    assert (lost.state.phase, down(lost)[0]) == (StreamPhase.DOWN, Health.FAIL)


def test_a_script_that_ends_by_itself_is_told_and_rests() -> None:
    done = look(*RUNNING, finished(OLD))
    assert judge_run(done, None).health is Health.PASS
    told = symptoms(done, None, None, 300.0)[IncidentKind.FINISHED]
    assert told.health is Health.FAIL
    assert "orders-1-aaaa (release 1) has ended by itself" in told.description
    assert symptoms(look(*RUNNING), None, None, 300.0)[IncidentKind.FINISHED].health is Health.PASS
    assert (
        symptoms(look(*RUNNING, finished(OLD), stopped("x")), None, None, 300.0)[IncidentKind.FINISHED].health
        is Health.PASS
    )
    restarted = [*RUNNING, requested("stop", None, until=300.0), finished(OLD)]
    assert look(*restarted).state.phase is StreamPhase.DOWN, "it was to be started again"
