"""Adopting a job as a table: who stands by, what the cluster says of the job, who has said that it is gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.adopt import ENDING_SECONDS, adopt, ask_for_the_end
from airflow_stream_provider.planning.conditions import FirstCommits, Pause, RequestOver, StandbyUp
from airflow_stream_provider.planning.signs_of_life import JobGone, SignsOfLife
from airflow_stream_provider.planning.steps import Append, Declare, Done, EndJob, GiveUp, Submit, Wait
from airflow_stream_provider.planning.take_over import STILL_SECONDS
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import ME, given_up, results, snapshot
from tests.support.story import (
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    STOPPED,
    aborted,
    acquired,
    ending,
    failed,
    fenced,
    following,
    ready,
    requested,
    retired,
    standby,
    submitted,
)

JOB = "driver-20261121023732-0002"
RUNS = UnmanagedView(JOB, DriverState.RUNNING, f"driver {JOB}", Remains((f"Driver {JOB} is RUNNING.",)))
GONE = UnmanagedView(JOB, DriverState.KILLED, f"driver {JOB}")
LINGERS = replace(GONE, remains=Remains(("Executor 0 of app-1 is alive on worker w.",)))
CUT_OFF = replace(GONE, remains=Remains((), ("Worker w is DEAD, and may run executors.",)))
LOST = UnmanagedView(JOB, DriverState.LOST)
FOLLOWS = following(OLD_DEPLOYMENT)
STARTED = [FOLLOWS, submitted(OLD_DEPLOYMENT), standby(OLD)]
SAID = [*STARTED, ending(OLD_DEPLOYMENT, JOB)]
INTENT = Append(
    "ending", {"deployment": OLD_DEPLOYMENT, "job": JOB, "expires": 110.0 + ENDING_SECONDS, "reason": "first step"}
)
MINE = requested("mine", OLD, by=ME.by, evidence={"job": "driver-1"})
SIGN = Wait(SignsOfLife({OLD: 0}, 30.0))
LIVES = WaitOutcome(Ended.REACHED, SignsOfLife.SUBJECT, evidence={OLD: True})
SILENT = WaitOutcome(Ended.REACHED, SignsOfLife.SUBJECT, evidence={OLD: False}, counters={OLD: 0})


def plan(
    records: list[Record],
    job: UnmanagedView | None = None,
    outcome: WaitOutcome | None = None,
    *,
    named: bool = True,
    confirmed_by: str = "",
    deployment: str = OLD_DEPLOYMENT,
    at: float = 110.0,
    says: str = "",
) -> Any:
    looked = replace(snapshot(*records, at=at), job=job, heartbeats={OLD: Heartbeat(message=says)})
    name = JOB if named and not confirmed_by else ""
    return adopt(looked, ME, deployment, outcome, "first step", job=name, confirmed_by=confirmed_by)


def test_the_new_driver_stands_by_before_anything_is_ended() -> None:
    assert plan([], RUNS) == Declare(OLD_DEPLOYMENT, "first step")
    assert plan([replace(FOLLOWS, by=ME.by)], RUNS) == Submit(OLD_DEPLOYMENT)
    assert plan(STARTED[:2], RUNS) == Wait(StandbyUp(OLD_DEPLOYMENT))
    refused = plan([*STARTED[:2], failed(OLD)], RUNS)
    assert isinstance(refused, GiveUp), "the job runs on"


def test_what_another_run_has_declared_just_now_is_submitted_by_that_run() -> None:
    """Two that ask for one adoption: both at once would start two drivers of one deployment."""
    theirs = [FOLLOWS]
    assert FOLLOWS.at == 100.0
    assert plan(theirs, RUNS) == Wait(Pause(OLD_DEPLOYMENT, 120.0))
    assert plan(theirs, RUNS, at=161.0) == Submit(OLD_DEPLOYMENT), "that run has been lost"
    assert plan([replace(FOLLOWS, by=ME.by)], RUNS) == Submit(OLD_DEPLOYMENT), "its own, in another try"
    assert plan(STARTED[:2], RUNS) == Wait(StandbyUp(OLD_DEPLOYMENT))


def test_then_the_cluster_ends_the_job_and_confirms_that_it_and_its_executors_are_gone() -> None:
    for job in (RUNS, LINGERS, CUT_OFF):
        assert plan(STARTED, job, LIVES) == INTENT, "rule 5: what is ended, and why, before it is"
    assert plan(SAID, RUNS, LIVES) == EndJob(JOB, JobGone(JOB))
    assert plan(SAID, LINGERS) == EndJob(JOB, JobGone(JOB))
    assert plan(SAID, CUT_OFF) == Wait(JobGone(JOB))
    assert plan(SAID, RUNS, WaitOutcome(Ended.EXPIRED, JOB)) == EndJob(JOB, JobGone(JOB)), "it is ended once more"
    step = plan(STARTED, GONE)
    assert isinstance(step, Append)
    assert (step.kind, step.fields["to"], step.fields["reason"]) == ("requested", OLD, "first step")
    assert step.fields["evidence"] == {"job": JOB, "state": "killed"}
    assert step.fields["expires"] == 110.0 + 60.0 + 30.0 + STILL_SECONDS, "it does not rehearse again first"
    assert isinstance(plan(STARTED, replace(GONE, managed=None)), Append), "whosever it was, it is gone"


@pytest.mark.parametrize("named", [True, False])
def test_before_the_job_ends_its_follower_has_given_a_sign_of_life(named: bool) -> None:
    """It may be dead for hours: nobody looks after a driver that stands by for a stream which nobody holds."""
    assert plan(STARTED, RUNS, named=named) == SIGN
    silent = plan(STARTED, RUNS, SILENT, named=named)
    assert f"{OLD_DEPLOYMENT}, which is to follow the job, gives no sign of life." in given_up(silent)
    for up in (LIVES, WaitOutcome(Ended.REACHED, OLD_DEPLOYMENT)):
        assert isinstance(plan(SAID, RUNS, up, named=named), EndJob if named else Done)


@pytest.mark.parametrize(
    ("job", "outcome", "says"),
    [
        (LOST, None, "does not confirm that .* is gone: It does not know it"),
        (CUT_OFF, WaitOutcome(Ended.UNKNOWN, JOB), "Worker w is DEAD, and may run executors"),
        (replace(RUNS, managed=True), None, "is run by a stream of this provider"),
        (replace(RUNS, managed=None), None, "Nothing shows that no stream of this provider runs driver"),
        (None, None, "cannot end driver-"),
    ],
)
def test_a_job_that_is_not_known_to_be_gone_is_not_followed(
    job: UnmanagedView | None, outcome: WaitOutcome | None, says: str
) -> None:
    step = plan(STARTED, job, outcome)
    assert isinstance(step, GiveUp)
    with pytest.raises(Exception, match=says):
        raise step.error


@pytest.mark.parametrize("view", [RUNS, GONE])
def test_the_end_of_another_job_is_no_evidence_for_the_one_that_is_to_be_followed(view: UnmanagedView) -> None:
    begun = [*STARTED, ending(OLD_DEPLOYMENT, "driver-1")]
    step = plan(begun, view, LIVES)
    assert isinstance(step, GiveUp)
    assert "driver-1 was to be ended for orders-1-aaaa, and nobody has confirmed" in str(step.error)
    assert "adopt by your word" in step.error.next_step
    assert plan(begun, confirmed_by="Ada").fields["evidence"] == {"person": "Ada"}
    assert isinstance(plan([*STARTED, ending(OLD_DEPLOYMENT, "")], GONE), Append), "a person was asked to end it"


@pytest.mark.parametrize(("known", "asked"), [([ending(OLD_DEPLOYMENT, JOB)], None), ([], "")])
def test_whoever_is_asked_to_end_a_job_does_not_make_the_log_forget_its_id(
    known: list[Record], asked: str | None
) -> None:
    step = ask_for_the_end(snapshot(*STARTED, *known), OLD_DEPLOYMENT, "why")
    assert (step.fields["job"] if step is not None else None) == asked
    other = [following("orders-3-cccc"), submitted("orders-3-cccc"), standby("orders-3-cccc.00000003")]
    step = ask_for_the_end(snapshot(*STARTED, *known, *other), "orders-3-cccc", "why")
    assert step is not None
    assert step.fields["job"] == (JOB if known else "")


def test_without_an_id_it_stands_by_until_a_person_says_by_name_that_the_job_is_gone() -> None:
    done = plan(STARTED, None, LIVES, named=False, says="batch 7 is under way")
    assert results(done, "adopted", "says") == (False, "batch 7 is under way")
    step = plan(STARTED, confirmed_by="Ada")
    assert isinstance(step, Append)
    assert step.fields["evidence"] == {"person": "Ada"}


def test_the_appointment_is_followed_to_the_first_batch() -> None:
    assert plan([*STARTED, MINE], GONE) == Wait(RequestOver("mine", 200.0, (OLD,), 30.0))
    taken = [*STARTED, MINE, ready("mine", OLD), acquired(OLD, "mine", 1)]
    assert plan(taken, GONE) == Wait(FirstCommits(OLD, ("a",), 120.0))
    for known in (
        plan(taken, GONE, WaitOutcome(Ended.REACHED, OLD)),
        plan(taken, GONE, at=121.0),
        plan([*taken, fenced(OLD)], None),
    ):
        assert isinstance(known, Done)
        assert known.result["adopted"]
        assert known.result["request"] == "mine"


def test_a_driver_that_did_not_answer_says_that_somebody_else_writes() -> None:
    said = given_up(plan([*STARTED, MINE, aborted("mine", by=ME.by)], GONE))
    assert "The stream was not adopted: enough." in said
    assert "so somebody else writes it" in said


def test_a_driver_that_is_lost_after_the_end_of_the_job_is_told() -> None:
    step = plan([*STARTED, retired(OLD_DEPLOYMENT)], GONE)
    assert "If this provider has ended that job, the watch starts the release again." in given_up(step)
    said = given_up(plan([*STARTED, retired(OLD_DEPLOYMENT)], confirmed_by="Ada"))
    assert f"The job is gone, by a person's word, and {OLD_DEPLOYMENT}" in said
    assert "Nobody runs the stream." in said


def test_what_somebody_else_has_started_is_left_alone() -> None:
    step = plan([*PREPARED], RUNS, deployment="orders-2-bbbb")
    assert "Somebody has started the stream meanwhile" in given_up(step)
    other = plan([*STARTED, requested("theirs", OLD, evidence={"job": "driver-1"})], RUNS, deployment="orders-9-cccc")
    assert other == Wait(RequestOver("theirs", 200.0, (OLD,), 30.0))


def test_a_stream_that_was_left_is_adopted_again() -> None:
    assert plan(STOPPED, RUNS, deployment="orders-1-dddd") == Declare("orders-1-dddd", "first step")
