"""What a cluster runs of a stream besides what its control log knows to live."""

from __future__ import annotations

from dataclasses import replace

from airflow_stream_provider.hooks.preflight import other_instances
from airflow_stream_provider.planning.job import job_first
from tests.support.snapshots import snapshot
from tests.support.story import (
    FOLLOWING,
    HANDED_OVER,
    JOB_ENDING,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    ready,
    requested,
    retired,
)

RUNNING = {"app-1": OLD_DEPLOYMENT, "app-2": NEW_DEPLOYMENT}


def test_what_the_log_knows_to_live_is_fine() -> None:
    assert other_instances(snapshot(*HANDED_OVER).state, RUNNING) == []
    assert other_instances(snapshot().state, {}) == []


def test_a_deployment_that_the_log_never_had_refuses() -> None:
    [found] = other_instances(snapshot(*HANDED_OVER).state, {**RUNNING, "app-3": "orders-9-ffff"})
    assert found.refuses
    assert "The cluster runs app-3 for this stream, of the deployment orders-9-ffff" in found.text
    assert "end app-3 on the cluster" in found.next_step


def test_one_that_has_ended_by_the_log_is_shown() -> None:
    state = snapshot(*HANDED_OVER, retired(OLD_DEPLOYMENT)).state
    [found] = other_instances(state, RUNNING)
    assert (found.refuses, "app-1" in found.text, "retired by the control log" in found.text) == (False, True, True)
    [found] = other_instances(replace(state, forgotten=("orders-0-0000",)), {"app-0": "orders-0-0000"})
    assert not found.refuses
    assert "ended long ago" in found.text


def test_two_drivers_of_one_deployment_are_shown() -> None:
    [found] = other_instances(snapshot(*HANDED_OVER).state, {**RUNNING, "app-9": NEW_DEPLOYMENT})
    assert not found.refuses
    assert "two drivers of" in found.text
    assert "app-2 and app-9" in found.text


def test_a_job_that_is_about_to_be_adopted_refuses_until_that_is_over() -> None:
    assert (
        job_first(snapshot(*FOLLOWING).state)
        == f"{OLD_DEPLOYMENT} is to follow a job that may write its checkpoints still."
    )
    followed = [
        *FOLLOWING,
        requested("mine", OLD, evidence={"job": "driver-1"}),
        ready("mine", OLD),
        acquired(OLD, "mine", 1),
    ]
    # The cluster has not confirmed the end that was asked for, and the follower was ended.
    assert job_first(snapshot(*JOB_ENDING, retired(OLD_DEPLOYMENT)).state)
    for over in ([], [*FOLLOWING, retired(OLD_DEPLOYMENT)], followed):
        assert job_first(snapshot(*over).state) == ""
