"""Whether somebody has to act for a stream whose tasks have not, and what a decision has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from airflow_stream_provider.clusters import DriverState, UnmanagedView
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.due import QUIET_SECONDS, due_without_cluster, is_due, needs
from airflow_stream_provider.planning.steps import Append, Declare, Done, Submit
from tests.support.snapshots import ASKED, BOTH, RUNNING, STOPPED, UPGRADED, WISHED, scene, snapshot
from tests.support.story import (
    FOLLOWING,
    JOB_ENDING,
    JOB_GONE,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    declared,
    failed,
    fenced,
    finished,
    released,
    retired,
    submitted,
    wanted,
)

DOWN = [*RUNNING, fenced(OLD), failed(None, OLD_DEPLOYMENT)]
BEAT: Mapping[str, bool | None] = {OLD: True, NEW: True}
LOST: Mapping[str, bool | None] = {OLD: False, NEW: True}
LATER = 100.0 + QUIET_SECONDS + 1
COMING = [*DOWN, declared("o-3", "old", again=OLD_DEPLOYMENT), submitted("o-3")]
REST = [*RUNNING, wanted("rest", "stop")]
JOB = UnmanagedView("driver-1", DriverState.KILLED, "driver driver-1")

# At 110, a few seconds after the last record, and LATER; without the cluster LATER.
Row = tuple[str, list[Record], Mapping[str, bool | None], str]
TABLE: list[Row] = [
    ("nobody has wished anything", [], {}, "no no no"),
    ("it runs", RUNNING, BEAT, "no no no"),
    ("nobody knows how the holder is", RUNNING, {}, "no no no"),
    ("it rests", [*STOPPED, retired(OLD_DEPLOYMENT)], {OLD_DEPLOYMENT: False}, "no no no"),
    ("its driver may be exiting still", [*STOPPED, retired(OLD_DEPLOYMENT)], {}, "yes yes no"),
    ("it has finished", [*RUNNING, finished(OLD)], BEAT, "no no no"),
    ("a candidate stands by", BOTH, BEAT, "no no no"),
    ("a hand-over is under way", ASKED, BEAT, "no no no"),
    ("it has been done", UPGRADED, BEAT, "no no no"),
    ("the holder seems lost", RUNNING, LOST, "yes yes no"),
    ("in a hand-over", ASKED, LOST, "no yes no"),
    ("it stopped inside a batch", [*RUNNING, released(OLD, None, None, "interrupted")], BEAT, "yes yes no"),
    ("a living driver may be appointed", [*RUNNING, released(OLD, None, None)], BEAT, "yes yes yes"),
    ("nobody knows whether it lives", [*RUNNING, released(OLD, None, None)], {}, "yes yes yes"),
    ("it is dead", [*RUNNING, released(OLD, None, None)], LOST, "yes yes no"),
    ("it is down", DOWN, {}, "yes yes no"),
    ("its driver comes up", COMING, {}, "no no no"),
    ("nothing is left of it", COMING, {"o-3": False}, "yes yes no"),
    ("nobody has submitted it", COMING[:-1], {}, "no yes no"),
    ("its cluster may start it again", [*RUNNING, fenced(OLD)], {}, "no no no"),
    ("it failed a moment ago", [*COMING, failed(None, "o-3")], {}, "no yes no"),
    ("a person has just wished a start", [wanted("go")], {}, "no yes no"),
    ("a hand-over", WISHED, BEAT, "no yes yes"),
    ("a hand-over that was given up", [*BOTH, wanted("take", family="new"), failed(NEW)], BEAT, "no no no"),
    ("a hand-over whose standby is dead", WISHED, {OLD: True, NEW: False}, "no yes no"),
    ("a candidate", [*RUNNING, wanted("third", "stand_by")], BEAT, "no yes no"),
    ("a stop", REST, BEAT, "no yes yes"),
    ("and a driver is left", STOPPED, {}, "yes yes yes"),
    ("a request whose wish was replaced", [*ASKED, wanted("rest", "stop")], BEAT, "no yes yes"),
    ("a release that nobody wants", [*BOTH, wanted("no", family="old")], BEAT, "no yes yes"),
    ("the end of a job was begun", JOB_ENDING, BEAT, "no yes no"),
]  # fmt: skip


@pytest.mark.parametrize(("records", "lives", "due"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_somebody_has_to_act(records: list[Record], lives: Mapping[str, bool | None], due: str) -> None:
    def at(seconds: float, *, answers: bool) -> str:
        return "yes" if is_due(scene(*records, lives=lives, at=seconds), cluster_answers=answers) else "no"

    found = at(110.0, answers=True), at(LATER, answers=True), at(LATER, answers=False)
    assert " ".join(found) == due


def test_a_request_that_has_expired_is_ended_without_the_cluster() -> None:
    assert is_due(scene(*ASKED, lives=BEAT, at=1000.0), cluster_answers=False)


def test_a_machine_whose_clock_is_ahead_blocks_nobody() -> None:
    ahead = [*DOWN, declared("o-3", "old", again=OLD_DEPLOYMENT, at=86_500.0)]
    assert is_due(scene(*ahead), cluster_answers=True)
    assert is_due(scene(wanted("go", at=86_500.0)), cluster_answers=True)


def test_a_job_that_is_confirmed_gone_has_its_follower_appointed() -> None:
    found = scene(*JOB_ENDING, lives=BEAT, at=LATER)
    assert is_due(replace(found, snapshot=replace(found.snapshot, job=JOB)), cluster_answers=False)


def test_what_needs_no_cluster_is_done_beside_a_run_that_waits_for_one() -> None:
    for kind in ("requested", "aborted", "retired"):
        assert due_without_cluster(Append(kind, {}))
    for step in (Append("fencing", {}), Declare("o-1", {}), Submit("o-1"), Done({})):
        assert not due_without_cluster(step)


@pytest.mark.parametrize(
    ("records", "drivers"),
    [
        ([], ()),
        (UPGRADED, ()),
        (DOWN, ()),
        (COMING[:-1], ()),
        (COMING, ("o-3",)),
        ([*STOPPED, retired(OLD_DEPLOYMENT)], (OLD_DEPLOYMENT,)),
        ([*UPGRADED, retired(OLD_DEPLOYMENT)], ()),
        ([*UPGRADED, wanted("third", "stand_by"), retired(OLD_DEPLOYMENT)], (OLD_DEPLOYMENT,)),
        ([*WISHED, fenced(NEW)], (NEW_DEPLOYMENT,)),
        ([*UPGRADED, retired(OLD_DEPLOYMENT), wanted("b", family="old", back=True), declared("o-3", "old"),
          submitted("o-3")], ("o-3",)),
    ],
    ids=["nothing", "it is so", "down", "not submitted", "comes up", "exits after a stop", "exited long ago",
         "makes room", "a lost standby", "a roll-back comes up"],
)  # fmt: skip
def test_the_cluster_is_asked_about_what_comes_up_or_is_to_be_gone(
    records: list[Record], drivers: tuple[str, ...]
) -> None:
    assert needs(snapshot(*records)).drivers == drivers


def test_the_cluster_is_asked_about_a_job_that_is_to_be_gone() -> None:
    assert needs(snapshot(*FOLLOWING)).job == needs(snapshot(*JOB_ENDING)).job == "driver-1"
    assert needs(snapshot(*JOB_GONE)).job == needs(snapshot(*RUNNING)).job == ""
