"""What a snapshot says of its stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.snapshot import submission_of
from tests.support.snapshots import snapshot
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    REQUESTED,
    RUNNING,
    STARTED,
    STOPPED,
    TAKEN_BACK,
    TWIN,
    acquired,
    declared,
    failed,
    fenced,
    hash_of,
    ready,
    record,
    released,
    requested,
    retired,
    standby,
)

BACK_AGAIN = [
    *HANDED_OVER,
    requested("back", OLD),
    ready("back", OLD),
    released(NEW, "back", OLD),
    acquired(OLD, "back", 3),
]


@pytest.mark.parametrize(
    ("records", "holding", "sentence"),
    [
        ([], "", "Nobody holds the stream (it is empty)."),
        (STARTED, "", "Nobody holds the stream (it is empty)."),
        (RUNNING, OLD_DEPLOYMENT, f"{OLD_DEPLOYMENT} (release 1) holds the stream."),
        (HANDED_OVER, NEW_DEPLOYMENT, f"{NEW_DEPLOYMENT} (release 1) holds the stream."),
        (STOPPED, "", "Nobody holds the stream (it is stopped)."),
    ],
)
def test_who_holds(records: list[Record], holding: str, sentence: str) -> None:
    found = snapshot(*records)
    assert (found.holding, found.holder_sentence) == (holding, sentence)
    assert [found.holds(name) for name in (OLD_DEPLOYMENT, NEW_DEPLOYMENT)] == [
        holding == OLD_DEPLOYMENT,
        holding == NEW_DEPLOYMENT,
    ]
    assert not found.holds("")


def test_a_driver_that_never_beat_has_no_counter_at_all() -> None:
    found = replace(snapshot(*PREPARED), heartbeats={OLD: Heartbeat(counter=0)})
    assert (found.counter(OLD), found.counter(NEW)) == (0, -1)


@pytest.mark.parametrize(("records", "counter"), [(RUNNING, 7), (HANDED_OVER, None), (STOPPED, None)])
def test_only_the_heartbeat_of_who_holds_is_the_holders(records: list[Record], counter: int | None) -> None:
    beat = replace(snapshot(*records), heartbeats={OLD: Heartbeat(counter=7)}).holder_heartbeat
    assert (beat.counter if beat else None) == counter


@pytest.mark.parametrize(
    ("records", "deployments"),
    [
        (REQUESTED, {OLD_DEPLOYMENT, NEW_DEPLOYMENT}),
        ([*STARTED, requested("start", OLD)], {OLD_DEPLOYMENT}),
        ([*RUNNING, requested("stop", None)], {OLD_DEPLOYMENT}),
        (HANDED_OVER, set()),
        ([], set()),
    ],
)
def test_an_open_request_is_about_who_shall_hold_and_who_holds(records: list[Record], deployments: set[str]) -> None:
    assert snapshot(*records).in_request == deployments


@pytest.mark.parametrize(
    ("records", "beats", "submission"),
    [
        (STARTED, {}, f"driver-{OLD_DEPLOYMENT}"),
        (STARTED, {OLD: "another"}, f"driver-{OLD_DEPLOYMENT}"),
        (STARTED[:1], {OLD: "by itself"}, "by itself"),
        (STARTED[:1], {OLD: ""}, ""),
        (STARTED[:1], {NEW: "of another deployment"}, ""),
        ([], {OLD: "by itself"}, "by itself"),
        ([], {}, ""),
    ],
)
def test_a_submission_is_known_from_the_log_or_from_the_driver_itself(
    records: list[Record], beats: dict[str, str], submission: str
) -> None:
    heartbeats = {name: Heartbeat(submission=said) for name, said in beats.items()}
    found = replace(snapshot(*records), heartbeats=heartbeats)
    assert found.submission(OLD_DEPLOYMENT) == submission
    assert submission_of(OLD_DEPLOYMENT, found.state, heartbeats) == submission


@pytest.mark.parametrize(
    ("more", "candidate"),
    [
        ([], NEW),
        ([standby(TWIN)], TWIN),
        ([standby(TWIN), fenced(TWIN)], NEW),
        ([fenced(NEW)], None),
        ([failed(NEW)], None),
        ([retired(NEW_DEPLOYMENT)], None),
    ],
)
def test_the_newest_live_driver_of_a_deployment_is_asked(more: list[Record], candidate: str | None) -> None:
    found = snapshot(*PREPARED, *more).candidate(NEW_DEPLOYMENT)
    assert (found.id if found else None) == candidate


def test_a_holder_is_no_candidate() -> None:
    assert snapshot(*RUNNING).candidate(OLD_DEPLOYMENT) is None
    assert snapshot(*RUNNING).candidate("none") is None


@pytest.mark.parametrize(
    ("records", "live"),
    [
        (RUNNING, ()),
        (PREPARED, (NEW_DEPLOYMENT,)),
        (HANDED_OVER, (OLD_DEPLOYMENT,)),
        ([*HANDED_OVER, retired(OLD_DEPLOYMENT)], ()),
        (STOPPED, (OLD_DEPLOYMENT, NEW_DEPLOYMENT)),
    ],
)
def test_what_has_not_ended_beside_the_holder(records: list[Record], live: tuple[str, ...]) -> None:
    assert snapshot(*records).live_deployments() == live


@pytest.mark.parametrize(
    ("records", "deployment", "before"),
    [
        (RUNNING, OLD_DEPLOYMENT, ""),
        (HANDED_OVER, NEW_DEPLOYMENT, OLD_DEPLOYMENT),
        (HANDED_OVER, OLD_DEPLOYMENT, ""),
        (PREPARED, NEW_DEPLOYMENT, OLD_DEPLOYMENT),
        (TAKEN_BACK, OLD_DEPLOYMENT, ""),
        (BACK_AGAIN, NEW_DEPLOYMENT, OLD_DEPLOYMENT),
        (BACK_AGAIN, "never held", OLD_DEPLOYMENT),
        ([], "never held", ""),
    ],
)
def test_who_held_before(records: list[Record], deployment: str, before: str) -> None:
    assert snapshot(*records).previous(deployment) == before


def test_every_change_of_holder_is_there_in_order() -> None:
    assert [r["epoch"] for r in snapshot(*BACK_AGAIN).acquisitions()] == [1, 2, 3]


def test_a_declared_deployment_is_found_by_its_record() -> None:
    assert snapshot(*PREPARED).declared(NEW_DEPLOYMENT)["release"]["hash"] == hash_of(NEW_DEPLOYMENT)
    with pytest.raises(KeyError):
        snapshot(*RUNNING).declared(NEW_DEPLOYMENT)


def test_the_longest_lease_counts_and_an_unknown_deployment_has_the_default() -> None:
    quick = record(
        "declared", deployment="d", release={"version": "1", "hash": "0" * 64}, policy={"lease_seconds": 5.0}, reason=""
    )
    slow = record(
        "declared",
        deployment="e",
        release={"version": "1", "hash": "0" * 64},
        policy={"lease_seconds": 90.0},
        reason="",
    )
    found = snapshot(quick, slow, declared(OLD_DEPLOYMENT))
    assert found.lease(["d.00000001"]) == 5.0
    assert found.lease(["d.00000001", "e.00000001"]) == 90.0
    assert found.lease(["d.00000001", "unknown.00000001"]) == Policy.lease_seconds
    assert found.lease([]) == Policy.lease_seconds
    assert found.policy("unknown") == Policy()
    assert found.policy("d") == Policy(lease_seconds=5.0)


def test_the_result_names_deployment_holder_and_who_came_before() -> None:
    assert snapshot(*HANDED_OVER).holder_result(NEW_DEPLOYMENT) == {
        "stream": "orders",
        "deployment": NEW_DEPLOYMENT,
        "version": "1",
        "previous": OLD_DEPLOYMENT,
        "holder": NEW_DEPLOYMENT,
        "epoch": 2,
    }


@pytest.mark.parametrize(
    ("records", "request_id", "found"),
    [
        (HANDED_OVER, "up", {"boundary": "completed", "ends": {"a": {"batch": 7}}}),
        (INTERRUPTED, "up", {"boundary": "interrupted", "ends": {"a": {"batch": 7}}}),
        (STOPPED, "stop", {"boundary": "completed", "ends": {"a": {"batch": 7}}}),
        (HANDED_OVER, "start", {}),
        (REQUESTED, "up", {}),
        (HANDED_OVER, "none", {}),
    ],
)
def test_how_the_old_holder_stopped_is_said_by_request(
    records: list[Record], request_id: str, found: dict[str, Any]
) -> None:
    assert snapshot(*records).release_for(request_id) == found


def test_a_release_that_names_no_batches_has_none() -> None:
    silent = record("released", incarnation="orders-1-aaaa.00000001", request="up", to=NEW, boundary="completed")
    records = [*REQUESTED, ready("up", NEW), silent]
    assert snapshot(*records).release_for("up") == {"boundary": "completed", "ends": {}}


def test_the_batch_of_an_idle_query_is_no_commit_of_this_driver() -> None:
    for queries, found in (
        ((), (False, False)),
        ((QueryProgress("a", batch=7),), (True, False)),
        ((QueryProgress("a", batch=7, commits=(Commit(1.0),)),), (True, True)),
    ):
        look = replace(snapshot(*RUNNING), heartbeats={OLD: Heartbeat(queries=queries)})
        assert (look.has_reported(OLD), look.has_committed(OLD)) == found
