"""Exactly one submission, whatever was lost: a real log, and a cluster that says what it has found."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from airflow_stream_provider.clusters import Cluster, DriverState, FoundDrivers, Job, SubmitUnclear
from airflow_stream_provider.control import ControlLog, FilesRoot, open_log
from airflow_stream_provider.hooks.submit import job_of, submit_once
from airflow_stream_provider.lifecycle.errors import ClusterError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.release import Release
from devstack.control_folder import folder_of
from tests.support.control_root import new_log
from tests.support.noting_cluster import NotingCluster
from tests.support.reserving_cluster import ReservingCluster, Shared, TaggingCluster, Turns
from tests.support.story import OLD, OLD_DEPLOYMENT, STARTED, record, retired, submitted, write

HASH = "abc0" * 16
RELEASE = Release("2.1", HASH, "app.py", ("--from", "x y"), ("lib.zip",), {"spark.cores.max": "2"})
JOB = job_of(FilesRoot("file:///c"), "orders", Path("/c/orders"), OLD_DEPLOYMENT, RELEASE, f"/c/orders/releases/{HASH}")


@pytest.fixture
def log(tmp_path: Path) -> ControlLog:
    found = new_log(f"file://{tmp_path}", "orders")
    write(found, STARTED[0])
    return found


@pytest.fixture
def cluster() -> NotingCluster:
    return NotingCluster()


def submissions(log: ControlLog) -> list[str]:
    return [r["submission"] for r in log.records() if r.kind == "submitted"]


def reserved(submission: str) -> Record:
    return record("submitted", deployment=OLD_DEPLOYMENT, submission=submission, cluster="")


def submit(log: ControlLog, cluster: NotingCluster, *, first: bool = False) -> bool:
    return submit_once(log, cluster, JOB, "test", first=first, verify=lambda: None)


def test_a_job_is_the_launcher_of_the_release_with_what_names_the_deployment() -> None:
    assert JOB.app_name == f"orders 2.1 [{OLD_DEPLOYMENT}]"
    assert JOB.release_dir == f"/c/orders/releases/{HASH}"
    launcher = ("--control", "file:///c", "--stream", "orders", "--deployment", OLD_DEPLOYMENT)
    assert JOB.arguments == (*launcher, "--", "app.py", "--from", "x y")
    assert (JOB.py_files, JOB.conf) == (("lib.zip",), {"spark.cores.max": "2"})


def test_a_release_whose_files_have_changed_is_not_submitted(log: ControlLog, cluster: NotingCluster) -> None:
    def verify() -> None:
        raise StreamError("The files have changed.")

    for first in (True, False):
        with pytest.raises(StreamError, match="have changed"):
            submit_once(log, cluster, JOB, "test", first=first, verify=verify)
    assert (cluster.jobs, submissions(log)) == ([], [])


@pytest.mark.parametrize(("first", "searched"), [(True, 0), (False, 1)])
def test_only_who_has_just_declared_it_submits_without_a_search(
    log: ControlLog, cluster: NotingCluster, first: bool, searched: int
) -> None:
    assert submit(log, cluster, first=first)
    assert (submissions(log), len(cluster.searched)) == (["driver-1"], searched)
    assert cluster.jobs == [JOB]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("end", [submitted(OLD_DEPLOYMENT), retired(OLD_DEPLOYMENT)], ids=["submitted", "retired"])
def test_what_was_submitted_or_has_ended_is_left_alone(
    log: ControlLog, cluster: NotingCluster, end: Record, first: bool
) -> None:
    write(log, end)
    assert submit(log, cluster, first=first)
    assert (cluster.did, cluster.searched) == ([], [])


@pytest.mark.parametrize(
    ("found", "known"),
    [
        (FoundDrivers(alive=("driver-9",)), "driver-9"),
        (FoundDrivers(alive=("driver-9",), certain=False), "driver-9"),
        (FoundDrivers(ended=("driver-8",)), "driver-8"),
        (FoundDrivers(alive=("driver-9",), ended=("driver-8",)), "driver-9"),
    ],
)
def test_a_submission_whose_record_was_lost_is_found_and_recorded(
    log: ControlLog, cluster: NotingCluster, found: FoundDrivers, known: str
) -> None:
    cluster.found = found
    assert submit(log, cluster)
    assert (submissions(log), cluster.did) == ([known], [])
    assert (cluster.searched, cluster.conf) == ([(OLD_DEPLOYMENT, 100.0)], JOB.conf)


def test_a_driver_that_says_its_submission_is_believed_before_the_cluster(
    log: ControlLog, cluster: NotingCluster
) -> None:
    log.beat(OLD, Heartbeat(submission="driver-7"))
    assert submit(log, cluster)
    assert (submissions(log), cluster.searched, cluster.did) == (["driver-7"], [], [])


def test_a_stranger_s_driver_is_not_recorded_because_a_heartbeat_names_it(
    log: ControlLog, cluster: NotingCluster
) -> None:
    log.beat(OLD, Heartbeat(submission="driver-7"))
    cluster.strangers, cluster.found = {"driver-7"}, FoundDrivers(alive=("driver-9",))
    assert submit(log, cluster)
    assert (submissions(log), cluster.did) == (["driver-9"], [])


@pytest.mark.parametrize("ended", [(), ("driver-8",)])
def test_while_the_cluster_is_not_certain_nothing_is_submitted(
    log: ControlLog, cluster: NotingCluster, ended: tuple[str, ...]
) -> None:
    cluster.found = FoundDrivers(ended=ended, certain=False)
    assert not submit(log, cluster)
    assert (submissions(log), cluster.did) == ([], [])


def test_a_submission_whose_answer_was_lost_is_asked_for_later(
    log: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(job: Job, note: Callable[[str], str]) -> str:
        raise SubmitUnclear("The master did not answer.")

    monkeypatch.setattr(cluster, "submit", lost)
    assert not submit(log, cluster, first=True)
    assert submissions(log) == []


def test_a_refusal_is_an_error_and_leaves_nothing(log: ControlLog, cluster: NotingCluster) -> None:
    cluster.error = ClusterError("The master is away.")
    for first in (True, False):
        with pytest.raises(ClusterError, match="The master is away"):
            submit(log, cluster, first=first)
    assert submissions(log) == []


def test_of_two_that_submit_at_once_the_second_in_the_log_kills_its_own(
    log: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = cluster.submit

    def overtaken(job: Job, note: Callable[[str], str]) -> str:
        other = open_log(f"file://{folder_of(log).parent}", "orders")
        write(other, record("submitted", deployment=OLD_DEPLOYMENT, submission="theirs", cluster=""))
        return really(job, note)

    monkeypatch.setattr(cluster, "submit", overtaken)
    assert submit(log, cluster, first=True)
    assert submissions(log) == ["theirs"]
    assert cluster.did == [("submit", "driver-1"), ("kill", "driver-1")]


# -- a cluster that reserves ids ---------------------------------------------------------------------------------------


def test_a_reserved_id_is_in_the_log_before_anything_is_sent(
    log: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.reserves = ["application_1"]
    seen: list[list[str]] = []
    really = cluster.submit

    def sent(job: Job, note: Callable[[str], str]) -> str:
        def noting(id: str) -> str:
            counts = note(id)
            seen.append([*submissions(log), *(did for did, _ in cluster.did)])
            return counts

        return really(job, noting)

    monkeypatch.setattr(cluster, "submit", sent)
    assert submit(log, cluster, first=True)
    assert (seen, cluster.did) == ([["application_1"]], [("submit", "application_1")])


def test_of_two_that_reserve_at_once_both_send_the_first_id_in_the_log(
    log: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.reserves = ["application_1"]
    really = cluster.submit

    def overtaken(job: Job, note: Callable[[str], str]) -> str:
        other = open_log(f"file://{folder_of(log).parent}", "orders")
        write(other, reserved("application_2"))
        return really(job, note)

    monkeypatch.setattr(cluster, "submit", overtaken)
    assert submit(log, cluster, first=True)
    assert (submissions(log), cluster.did) == (["application_2"], [("submit", "application_2")])


@pytest.mark.parametrize(
    ("state", "sent"),
    [
        (DriverState.RESERVED, 1),
        *((state, 0) for state in DriverState if state is not DriverState.RESERVED),
    ],
)
def test_an_id_in_the_log_is_sent_again_only_while_the_cluster_has_no_driver_of_it(
    log: ControlLog, cluster: NotingCluster, state: DriverState, sent: int
) -> None:
    write(log, reserved("application_1"))
    cluster.states["application_1"] = state
    cluster.reserves = ["application_2"]
    assert submit(log, cluster)
    assert cluster.did == [("submit", "application_1")] * sent


@pytest.mark.parametrize("sign", ["heartbeat", "announced", "ended"])
def test_an_id_whose_driver_was_there_is_not_sent_again(log: ControlLog, cluster: NotingCluster, sign: str) -> None:
    """The ResourceManager forgets what has ended, and would start it anew."""
    write(log, reserved("application_1"))
    if sign == "heartbeat":
        log.beat(OLD, Heartbeat())
    else:
        write(log, STARTED[2] if sign == "announced" else retired(OLD_DEPLOYMENT))
    cluster.states["application_1"] = DriverState.RESERVED
    assert submit(log, cluster)
    assert cluster.did == []


def test_a_release_that_has_changed_since_is_not_sent(log: ControlLog, cluster: NotingCluster) -> None:
    def verify() -> None:
        raise StreamError("The files have changed.")

    write(log, reserved("application_1"))
    cluster.states["application_1"] = DriverState.RESERVED
    with pytest.raises(StreamError, match="have changed"):
        submit_once(log, cluster, JOB, "test", first=False, verify=verify)
    assert cluster.did == []


def test_an_answer_that_is_lost_is_asked_for_later_and_its_id_stays(log: ControlLog) -> None:
    shared = Shared()
    for lost in (True, False):
        cluster = cast("Cluster", ReservingCluster(shared, lambda: None, answers_lost=lost))
        assert submit_once(log, cluster, JOB, "test", first=lost, verify=lambda: None) is not lost
    assert shared.sent == submissions(log) == ["application_1_1"]


# Every order in which two tries take their first six steps, three each.
ORDERS = ["".join("a" if step in of_a else "b" for step in range(6)) for of_a in itertools.combinations(range(6), 3)]


@pytest.mark.parametrize(
    ("dies", "restarts"), [*((step, None) for step in (None, *range(8))), *((None, step) for step in range(2, 14, 2))]
)
def test_in_every_order_of_two_tries_one_id_is_sent_and_it_is_the_one_in_the_log(
    log: ControlLog, dies: int | None, restarts: int | None
) -> None:
    """The first is killed before one of its steps, or the cluster is started anew. A third one finds what is left."""
    for order in ORDERS:
        for file in folder_of(log).glob("log/*[2-9].json"):
            file.unlink()
        shared, turns = Shared(), Turns()

        def attempt(point: Callable[[], None], shared: Shared = shared) -> None:
            mine = open_log(f"file://{folder_of(log).parent}", "orders")
            cluster = cast("Cluster", ReservingCluster(shared, point))
            submit_once(mine, cluster, JOB, "test", first=False, verify=point)

        steps = {"a": 0, "b": 0}
        for name in steps:
            turns.add(name, attempt)
        for number, name in enumerate(order + "ab" * 8):
            if number == restarts:
                shared.restart()
            if name in turns.waiting:
                turns.step(name, kill=(name, steps[name]) == ("a", dies))
                steps[name] += 1
        assert turns.waiting == []
        with contextlib.suppress(ClusterError):
            attempt(lambda: None)

        recorded = submissions(open_log(f"file://{folder_of(log).parent}", "orders"))
        assert len(recorded) == 1
        assert set(shared.sent) <= set(recorded)
        if restarts is None:
            assert (turns.errors, list(shared.known)) == ([], recorded)
        else:
            assert all(isinstance(error, ClusterError) for error in turns.errors), turns.errors


@pytest.mark.parametrize("dies", [None, *range(9)])
def test_in_every_order_of_two_tries_a_tag_is_sent_once_and_no_other_is(log: ControlLog, dies: int | None) -> None:
    """The first is killed before one of its steps. Others find what is left, before and after the bound is over."""
    for order in ORDERS:
        for file in folder_of(log).glob("log/*[2-9].json"):
            file.unlink()
        shared, turns = Shared(), Turns()

        def attempt(point: Callable[[], None], shared: Shared = shared) -> bool:
            mine = open_log(f"file://{folder_of(log).parent}", "orders")
            cluster = cast("Cluster", TaggingCluster(shared, point))
            return submit_once(mine, cluster, JOB, "test", first=False, verify=point)

        def try_once(point: Callable[[], None], attempt: Callable[[Callable[[], None]], bool] = attempt) -> None:
            attempt(point)

        steps = {"a": 0, "b": 0}
        for name in steps:
            turns.add(name, try_once)
        for name in order + "ab" * 8:
            if name in turns.waiting:
                turns.step(name, kill=(name, steps[name]) == ("a", dies))
                steps[name] += 1
        assert (turns.waiting, turns.errors) == ([], [])

        (recorded,) = submissions(open_log(f"file://{folder_of(log).parent}", "orders"))
        assert attempt(lambda: None) is (recorded in shared.known), "it waits while one may be on its way"
        shared.start += 1
        assert attempt(lambda: None)
        assert shared.sent in ([recorded], []), "nothing is sent twice, and nothing but what is in the log"
        if dies is None:
            assert list(shared.known) == [recorded]
