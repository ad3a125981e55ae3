"""Stopping a stream, step by step."""

from __future__ import annotations

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.planning.conditions import DriversGone
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Wait
from airflow_stream_provider.planning.stop import stop
from airflow_stream_provider.planning.task_identity import TaskIdentity
from tests.support.snapshots import RUNNING, snapshot, up
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    ready,
    record,
    released,
    requested,
)


def test_a_stop_asks_the_holder_then_ends_every_driver() -> None:
    identity = TaskIdentity("dag", "run", "stop")
    step = stop(snapshot(*RUNNING), identity, None, "why")
    assert isinstance(step, Append)
    assert (step.kind, step.fields["to"]) == ("requested", None)
    stopped = [*RUNNING, requested("stop", None, by=identity.by), released(OLD, "stop", None)]
    ending = stop(snapshot(*stopped), identity, None, "why")
    assert ending == Append("retired", {"deployment": OLD_DEPLOYMENT, "reason": "why"})
    retired = [*stopped, record("retired", by=identity.by, deployment=OLD_DEPLOYMENT, reason="why")]
    assert stop(snapshot(*retired), identity, None, "why") == Wait(DriversGone(OLD_DEPLOYMENT, 170.0))
    gone = {OLD_DEPLOYMENT: DriverFacts("driver", DriverState.FINISHED, gone=True)}
    done = stop(snapshot(*retired, drivers=gone), identity, None, "why")
    assert isinstance(done, Done)
    assert done.result["stopped"] is True


def test_a_cleared_stop_leaves_what_was_started_since_alone() -> None:
    identity = TaskIdentity("dag", "run", "stop")
    stopped = [*RUNNING, requested("stop", None, by=identity.by), released(OLD, "stop", None)]
    retired = [*stopped, record("retired", by=identity.by, deployment=OLD_DEPLOYMENT, reason="why")]
    gone = {OLD_DEPLOYMENT: DriverFacts("driver", DriverState.FINISHED, gone=True)}
    waiting = stop(snapshot(*retired, *up(NEW), drivers=gone), identity, None, "why")
    assert isinstance(waiting, Done)
    started = [*retired, *up(NEW), requested("go", NEW), ready("go", NEW), acquired(NEW, "go", 2)]
    done = stop(snapshot(*started, drivers=gone), identity, None, "why")
    assert isinstance(done, Done)
    assert (done.result["stopped"], done.result["holder"]) == (False, NEW_DEPLOYMENT)


def test_a_holder_that_missed_its_stop_goes_on() -> None:
    identity = TaskIdentity("dag", "run", "stop")
    missed = [
        *RUNNING,
        requested("stop", None, by=identity.by),
        record("aborted", incarnation=OLD, request="stop", reason="m"),
    ]
    assert isinstance(stop(snapshot(*missed), identity, None, "why"), GiveUp)
