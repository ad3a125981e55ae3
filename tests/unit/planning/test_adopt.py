"""Adopting a job as a table: who stands by, what the cluster says of the job, who has said that it is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.adopt import ENDING_SECONDS
from airflow_stream_provider.planning.job import job_first, job_of_interest, waits_for_person, witness
from airflow_stream_provider.planning.reconcile import reconcile
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.steps import Append, AskPerson, Declare, Step
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import brief, given_up, scene, snapshot, up
from tests.support.story import (
    OLD,
    OLD_DEPLOYMENT,
    aborted,
    acquired,
    ending,
    failed,
    fenced,
    following,
    ready,
    record,
    requested,
    retired,
    standby,
    submitted,
    wanted,
)

JOB = "driver-20261121023732-0002"
RUNS = UnmanagedView(JOB, DriverState.RUNNING, f"driver {JOB}", Remains((f"Driver {JOB} is RUNNING.",)))
GONE = UnmanagedView(JOB, DriverState.KILLED, f"driver {JOB}")
LINGERS = replace(GONE, remains=Remains(("Executor 0 of app-1 is alive on worker w.",)))
CUT_OFF = replace(GONE, remains=Remains((), ("Worker w is DEAD, and may run executors.",)))
LOST = UnmanagedView(JOB, DriverState.LOST)
ADOPT = wanted("adopt", policy={"adopts": True}, adopts=True, job=JOB)
BY_WORD = wanted("adopt", policy={"adopts": True}, adopts=True, confirmed_by="Ada")
BY_HAND = wanted("adopt", policy={"adopts": True}, adopts=True)
FOLLOWER = [following(OLD_DEPLOYMENT, "adopt"), submitted(OLD_DEPLOYMENT), standby(OLD)]
STARTED = [ADOPT, *FOLLOWER]
SAID = [*STARTED, ending(OLD_DEPLOYMENT, JOB)]
ASKED = [*SAID, requested("a", OLD, wish="adopt", evidence={"job": JOB, "state": "killed"})]
DOUBT = [*ASKED, aborted("a", at=400.0)]
LIVES, SILENT = {OLD: True}, {OLD: False}
EXPIRED = WaitOutcome(Ended.EXPIRED, JOB)


def look(*records: Record, job: UnmanagedView | None = None, says: str = "", **more: Any) -> Scene:
    found = scene(*records, **more)
    beats = {OLD: Heartbeat(message=says)}
    return replace(found, snapshot=replace(found.snapshot, job=job, heartbeats=beats))


def step(*records: Record, job: UnmanagedView | None = None, **more: Any) -> Step:
    return reconcile(look(*records, job=job, **more))


UP = WaitOutcome(Ended.REACHED, OLD_DEPLOYMENT)
TABLE: list[tuple[str, list[Record], dict[str, Any], str]] = [
    ("nothing is up", [ADOPT], {"job": RUNS}, "declare adopt"),
    ("another declared it", STARTED[:2], {"job": RUNS}, "wait Pause"),
    ("it comes up", STARTED[:3], {"job": RUNS}, "wait StandbyUp"),
    ("it is refused", [*STARTED[:3], failed(OLD)], {"job": RUNS}, "giveup"),
    ("it was lost", [*STARTED, fenced(OLD)], {"job": RUNS}, "failed old"),
    ("another one follows", [*STARTED, fenced(OLD), failed(None, OLD_DEPLOYMENT)], {"job": RUNS}, "declare adopt"),
    ("how it is is not known", STARTED, {"job": RUNS}, "wait SignsOfLife"),
    ("it gives no sign of life", STARTED, {"job": RUNS, "lives": SILENT}, "fencing OLD"),
    ("it lives", STARTED, {"job": RUNS, "lives": LIVES}, "ending old"),
    ("it has come up just now", STARTED, {"job": RUNS, "outcome": UP}, "ending old"),
    ("executors linger", STARTED, {"job": LINGERS, "lives": LIVES}, "ending old"),
    ("the end is declared", SAID, {"job": RUNS, "lives": LIVES}, f"endjob {JOB}"),
    ("it does not end", SAID, {"job": RUNS, "lives": LIVES, "outcome": EXPIRED}, f"endjob {JOB}"),
    ("it lingers", SAID, {"job": LINGERS, "lives": LIVES}, f"endjob {JOB}"),
    ("it is cut off", SAID, {"job": CUT_OFF, "lives": LIVES}, "wait JobGone"),
    ("it is gone", SAID, {"job": GONE, "lives": LIVES}, "requested OLD"),
    ("it was gone before", STARTED, {"job": GONE, "lives": LIVES}, "requested OLD"),
    ("whosever it was", STARTED, {"job": replace(GONE, managed=None), "lives": LIVES}, "requested OLD"),
    ("it is gone, and the follower silent", SAID, {"job": GONE, "lives": SILENT}, "fencing OLD"),
    ("and its driver refused", [*SAID, failed(OLD)], {"job": GONE}, "declare adopt"),
    ("and called off", [*SAID, retired(OLD_DEPLOYMENT)], {"job": GONE}, "declare adopt"),
    ("a person says so", [BY_WORD, *FOLLOWER], {"lives": LIVES}, "requested OLD"),
    ("and nothing is up", [BY_WORD], {}, "declare adopt"),
    ("the follower is asked", ASKED, {"job": GONE, "lives": LIVES}, "wait RequestOver"),
    ("it does not answer", DOUBT, {"job": GONE, "lives": LIVES}, "giveup"),
    ("a person has seen to that", [*DOUBT, wanted("w", family="adopt")], {"lives": LIVES}, "requested OLD"),
    ("or starts another release", [*DOUBT, wanted("w")], {"lives": LIVES}, "retired old"),
    ("or names another job", [*DOUBT, wanted("w", family="adopt", job="driver-9")],
     {"lives": LIVES, "job": replace(RUNS, id="driver-9")}, "ending old"),
    ("it dies after that", [*ASKED, fenced(OLD), aborted("a")], {"lives": {OLD_DEPLOYMENT: False}}, "failed old"),
    ("its release is run again", [*ASKED, fenced(OLD), aborted("a"), failed(None, OLD_DEPLOYMENT)], {},
     "declare adopt"),
    ("a person is to end it", [BY_HAND, *FOLLOWER], {"lives": LIVES}, "ending old"),
    ("and is asked", [BY_HAND, *FOLLOWER, ending(OLD_DEPLOYMENT, "")], {"lives": LIVES}, "askperson old"),
    ("the job does not show", STARTED, {"job": LOST, "lives": LIVES}, "giveup"),
    ("nor after a while", SAID, {"job": CUT_OFF, "outcome": WaitOutcome(Ended.UNKNOWN, JOB)}, "giveup"),
    ("it is a stream's", STARTED, {"job": replace(RUNS, managed=True), "lives": LIVES}, "giveup"),
    ("whose it is is not known", STARTED, {"job": replace(RUNS, managed=None), "lives": LIVES}, "giveup"),
    ("the cluster ends none", STARTED, {"lives": LIVES}, "giveup"),
    ("another one was to be ended", [*STARTED, ending(OLD_DEPLOYMENT, "driver-1")], {"job": RUNS, "lives": LIVES},
     "giveup"),
    ("and that one is gone", [*STARTED, ending(OLD_DEPLOYMENT, "driver-1")], {"job": GONE, "lives": LIVES}, "giveup"),
    ("called off", [*SAID, wanted("no", "stop")], {"job": GONE, "lives": LIVES}, "retired old"),
    ("called off while it is asked", [*ASKED, wanted("no", "stop")], {"lives": LIVES}, "aborted a"),
]  # fmt: skip


@pytest.mark.parametrize(("records", "seen", "next_step"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_next_step(records: list[Record], seen: dict[str, Any], next_step: str) -> None:
    assert brief(step(*records, **seen)) == next_step


def test_the_intent_says_what_is_ended_why_and_until_when() -> None:
    """Rule 5. Should the task be lost after that, the watch knows."""
    fields = {
        "deployment": OLD_DEPLOYMENT,
        "job": JOB,
        "expires": 110.0 + ENDING_SECONDS,
        "reason": "a person wants it",
    }
    assert step(*STARTED, job=RUNS, lives=LIVES) == Append("ending", fields)


@pytest.mark.parametrize(
    ("job", "outcome", "says"),
    [
        (LOST, None, "does not confirm that driver-20261121023732-0002 is gone: It does not know it"),
        (CUT_OFF, WaitOutcome(Ended.UNKNOWN, JOB), "Worker w is DEAD, and may run executors"),
        (replace(RUNS, managed=True), None, "is run by a stream of this provider"),
        (replace(RUNS, managed=None), None, "Nothing shows that no stream of this provider runs driver"),
        (None, None, "cannot end driver-"),
    ],
)
def test_why_a_job_is_not_followed_is_said(job: UnmanagedView | None, outcome: WaitOutcome | None, says: str) -> None:
    assert says in given_up(step(*STARTED, job=job, outcome=outcome, lives=LIVES))


def test_a_driver_that_did_not_answer_says_that_somebody_else_writes() -> None:
    said = given_up(step(*DOUBT, lives=LIVES))
    assert f"{OLD_DEPLOYMENT} was to follow {JOB}, which is gone, and did not: enough." in said
    assert "somebody else writes the checkpoint" in said


def test_the_driver_that_comes_after_a_lost_follower_follows_only_while_the_job_may_run() -> None:
    lost = [*STARTED, fenced(OLD), failed(None, OLD_DEPLOYMENT)]
    anew = [*DOUBT, *lost[-2:], wanted("w", family="adopt")]
    for records, job, again in ((lost, RUNS, False), (lost, GONE, False), (anew, None, True)):
        found = reconcile(look(*records, job=job))
        assert isinstance(found, Declare)
        assert ("again" in found.fields) is again
        snapshot(*records, record("declared", deployment=found.deployment, **found.fields))


@pytest.mark.parametrize("end", [retired(OLD_DEPLOYMENT), failed(OLD)])
def test_nobody_is_brought_up_beside_a_job_that_may_write(end: Record) -> None:
    for records in (STARTED, SAID, [*SAID, end]):
        found = step(*records, wanted("go"), lives=LIVES)
        assert f"{OLD_DEPLOYMENT} is to follow a job that may write its checkpoints still." in given_up(found)
        assert job_first(snapshot(*records).state)
    for over in ([*STARTED, end], [*SAID, end, wanted("no", "stop")], DOUBT):
        assert not job_first(snapshot(*over).state)


def test_the_end_of_another_job_is_no_evidence() -> None:
    assert _witness(look(*SAID, job=GONE)) == {"job": JOB, "state": "killed"}
    assert _witness(look(BY_WORD, *FOLLOWER)) == {"person": "Ada"}
    for found in (
        look(*SAID, job=replace(GONE, id="driver-9")),
        look(*SAID, job=CUT_OFF),
        look(*SAID),
        look(*[*ASKED, ready("a", OLD), acquired(OLD, "a", 1)], job=GONE),
    ):
        assert _witness(found) == {}


def test_the_cluster_is_asked_about_the_job_that_is_to_be_gone() -> None:
    for records, job in (
        ([], ""), (STARTED, JOB), (SAID, JOB), (ASKED, ""), (DOUBT, ""), ([BY_HAND, *FOLLOWER], ""),
        ([*DOUBT, wanted("w", family="adopt", job="driver-9")], "driver-9"), ([*SAID, wanted("no", "stop")], ""),
        ([*ASKED, ready("a", OLD), acquired(OLD, "a", 1)], ""),
    ):  # fmt: skip
        assert job_of_interest(snapshot(*records).state) == job


def test_nothing_follows_a_job_once_another_driver_has_held() -> None:
    asked = [requested("a", OLD, wish="old"), ready("a", OLD), wanted("again", family="adopt", job=JOB)]
    records = [ADOPT, wanted("old"), *up(OLD, "old"), *asked, acquired(OLD, "a", 1)]
    for held in (records, [*records, fenced(OLD)]):
        assert not snapshot(*held).state.illegal
        assert "There is no job to follow any more" in given_up(step(*held, job=RUNS, lives=LIVES))


def test_a_person_is_told_where_only_a_person_can_go_on() -> None:
    for records, says in (
        (STARTED, ""),
        (SAID, f"{JOB} was to be ended, for {OLD_DEPLOYMENT} to follow it, and nobody has confirmed that it is gone."),
        ([*STARTED, ending(OLD_DEPLOYMENT, "")], "A person was asked to end the job that orders-1-aaaa is to follow"),
        (ASKED, ""),
        (DOUBT, "As a rule somebody else writes the checkpoint"),
    ):
        found = waits_for_person(snapshot(*records).state)
        assert bool(found) is bool(says)
        assert says in found


def test_a_person_who_is_to_end_the_job_is_told_how_far_it_is() -> None:
    asks = step(BY_HAND, *FOLLOWER, ending(OLD_DEPLOYMENT, ""), lives=LIVES, says="Batch 7,\n 2 s ago.")
    assert asks == AskPerson(OLD_DEPLOYMENT, "Batch 7, 2 s ago.")


def _witness(found: Scene) -> Mapping[str, Any]:
    wish = found.state.wish
    assert wish is not None
    return witness(found.snapshot, wish)
