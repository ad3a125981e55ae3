"""What a person is told before a job is adopted, and every reason why it may not be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.foresee import foresee
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from tests.support.snapshots import snapshot
from tests.support.story import (
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    RUNNING,
    STARTED,
    STOPPED,
    fenced,
    hash_of,
    record,
    requested,
    retired,
    standby,
    submitted,
)
from tests.support.story import ending as job_ends

JOB = "application_1410450250506_0001"
RUNS = UnmanagedView(JOB, DriverState.RUNNING, f"application {JOB} (orders) of spark", Remains(("It runs.",)))
YAML = Wanted("1", hash_of(OLD_DEPLOYMENT))
LEFT = [*STOPPED, retired(OLD_DEPLOYMENT), retired("orders-2-bbbb")]
FOLLOWS = [
    record(
        "declared",
        deployment=OLD_DEPLOYMENT,
        release={"version": "1", "hash": hash_of(OLD_DEPLOYMENT)},
        policy={"adopts": True},
        reason="",
    ),
    submitted(OLD_DEPLOYMENT),
    standby(OLD),
]


def seen(
    view: UnmanagedView | None,
    *records: Record,
    job: str = JOB,
    wanted: Wanted = YAML,
    beat: float = 109.0,
    **asked: Any,
) -> Foreseen:
    beats = {OLD: Heartbeat(at=beat, message="batch 7 is under way.")}
    looked = replace(snapshot(*records), job=view, heartbeats=beats)
    return foresee(looked, Operation.ADOPT, wanted, job=job, **asked)


def test_it_names_the_job_and_says_what_its_end_may_double() -> None:
    found = seen(RUNS)
    assert found.parts == (Operation.ADOPT,)
    assert found.lines[0] == "orders is empty: no driver has ever held it."
    assert f"release 1 ({hash_of(OLD_DEPLOYMENT)[:12]}) is started beside the old job" in found.will[0]
    assert "application_1410450250506_0001 (orders) of spark is ended by the cluster" in found.will[1]
    assert "What starts it again (systemd, cron" in found.will[1]
    assert "If they move on, somebody else writes them" in found.will[2]
    assert found.reads_again.startswith("the batch of the old job that is cut off")


def test_without_an_id_a_person_ends_it_or_has_said_so_already() -> None:
    assert "Then you are asked to end the old job, and to say by your name that it is gone." in str(seen(None, job=""))
    assert "The old job counts as gone by the word of Ada" in str(seen(None, job="", confirmed_by="Ada"))


def test_one_that_was_cut_off_goes_on_with_the_driver_that_stands_by() -> None:
    found = seen(RUNS, *FOLLOWS)
    assert found.deployment == OLD_DEPLOYMENT
    assert found.will[0] == f"{OLD_DEPLOYMENT} stands by already. batch 7 is under way."
    ended = replace(RUNS, state=DriverState.KILLED, remains=Remains())
    assert not seen(ended, *FOLLOWS).refused, "it has ended it itself"


def test_a_stream_that_was_left_can_be_adopted_again() -> None:
    assert not seen(RUNS, *LEFT).refused


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (RUNNING, "Its checkpoints are managed already: there is nothing to adopt."),
        ([*RUNNING, fenced(OLD)], "Its checkpoints are managed already"),
        (STARTED, f"{OLD_DEPLOYMENT} comes up or stands by already. Call it off first"),
        ([*STARTED, requested("start", OLD)], "is under way, by airflow (a person wants it). Ask again"),
    ],
)
def test_a_stream_that_is_managed_is_refused(records: list[Record], says: str) -> None:
    assert says in seen(RUNS, *records).refused


@pytest.mark.parametrize(
    ("view", "says"),
    [
        (None, f"The stream's cluster cannot end {JOB}"),
        (UnmanagedView(JOB, DriverState.LOST), f"The cluster does not know {JOB}, or has lost it."),
        (replace(RUNS, managed=True), "is run by a stream of this provider"),
        (
            replace(RUNS, managed=None),
            "its log does not begin with its command. Leave the job out, and end it yourself",
        ),
        (replace(RUNS, state=DriverState.FINISHED), "has ended already (finished). If it was started again since"),
    ],
)
def test_a_job_that_cannot_be_adopted_is_refused(view: UnmanagedView | None, says: str) -> None:
    found = seen(view)
    assert says in found.refused
    assert found.parts == ()


def test_what_else_is_refused_before_anything_is_touched() -> None:
    assert "give one of both" in seen(RUNS, confirmed_by="Ada").refused
    assert seen(RUNS, wanted=Wanted(problem="There is no apps/a.py.")).refused == "There is no apps/a.py."
    assert "needs a person's approval" in seen(RUNS, wanted=replace(YAML, approval=True)).refused
    other = foresee(snapshot(*RUNNING), Operation.STOP, job=JOB)
    assert other.refused == "Only a job that is adopted is named by its id."


def test_one_that_is_silent_follows_nobody() -> None:
    said = f"{OLD} was last heard of 1 min 40 s ago. It cannot follow the job. Call it off"
    assert said in seen(RUNS, *FOLLOWS, beat=10.0).refused


@pytest.mark.parametrize("operation", [Operation.START, Operation.RESTART, Operation.UPGRADE, Operation.REDEPLOY])
def test_nothing_else_is_brought_up_beside_a_job_that_is_to_be_followed(operation: Operation) -> None:
    """While it waits for data its logs stand still, as if nobody wrote them."""
    said = f"{OLD_DEPLOYMENT} is to follow a job that may write its checkpoints still. Adopt that job"
    assert said in foresee(snapshot(*FOLLOWS), operation, YAML).refused
    assert said not in foresee(snapshot(*FOLLOWS, retired(OLD_DEPLOYMENT)), operation, YAML).refused
    ending = [*FOLLOWS, job_ends(OLD_DEPLOYMENT, JOB), retired(OLD_DEPLOYMENT)]
    assert said in foresee(snapshot(*ending), operation, YAML).refused


def test_whoever_stops_a_stream_is_told_that_nothing_asks_any_more_whether_its_job_is_gone() -> None:
    said = "Nobody follows it then, and nothing asks any more whether it is gone: if it is not, two jobs write"
    ending = [*FOLLOWS, job_ends(OLD_DEPLOYMENT, JOB), retired(OLD_DEPLOYMENT)]
    for begun in (FOLLOWS, ending):
        assert said in str(foresee(snapshot(*begun), Operation.STOP))
    assert said not in str(foresee(snapshot(*RUNNING), Operation.STOP))


def test_another_job_than_the_one_that_was_to_be_ended_is_refused() -> None:
    begun = [*FOLLOWS, job_ends(OLD_DEPLOYMENT, "driver-1")]
    said = f"driver-1 was to be ended for {OLD_DEPLOYMENT}, and nobody has confirmed that it is gone. Adopt that one"
    for view in (RUNS, replace(RUNS, state=DriverState.KILLED, remains=Remains())):
        assert said in seen(view, *begun).refused
    assert not seen(None, *begun, job="", confirmed_by="Ada").refused


def test_one_whose_job_has_ended_since_is_adopted_again_by_its_id() -> None:
    ending = [*FOLLOWS, job_ends(OLD_DEPLOYMENT, JOB), retired(OLD_DEPLOYMENT)]
    ended = replace(RUNS, state=DriverState.KILLED, remains=Remains())
    assert not seen(ended, *ending).refused
    asked = [*FOLLOWS, job_ends(OLD_DEPLOYMENT, ""), retired(OLD_DEPLOYMENT)]
    assert "has ended already" in seen(ended, *asked).refused, "nobody has named that one"


def test_who_is_to_follow_a_job_is_not_promoted_past_it() -> None:
    found = foresee(snapshot(*FOLLOWS), Operation.PROMOTE)
    assert "may write its checkpoints still. Adopt that job" in found.refused
    other = [*FOLLOWS, job_ends(OLD_DEPLOYMENT, JOB), retired(OLD_DEPLOYMENT), *PREPARED[-3:]]
    assert "may write its checkpoints still. Adopt that job" in foresee(snapshot(*other), Operation.PROMOTE).refused
