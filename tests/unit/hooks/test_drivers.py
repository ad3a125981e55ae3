"""What is said of a deployment's drivers together: a real log, and a cluster that says what a test has told it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import DriverState, DriverView, FoundDrivers, Remains, Whose
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks.drivers import driver_facts, kill_drivers
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from tests.support.control_root import new_log
from tests.support.noting_cluster import NotingCluster
from tests.support.story import OLD, OLD_DEPLOYMENT, RUNNING, STARTED, retired, write

RECORDED, SAID = f"driver-{OLD_DEPLOYMENT}", "driver-9"


@pytest.fixture
def log(tmp_path: Path) -> ControlLog:
    return new_log(f"file://{tmp_path}", "orders")


@pytest.fixture
def cluster() -> NotingCluster:
    return NotingCluster()


def test_of_a_deployment_that_nobody_has_submitted_nothing_is_said(log: ControlLog, cluster: NotingCluster) -> None:
    write(log, STARTED[0])
    assert driver_facts(log, cluster, Whose(OLD_DEPLOYMENT)) is None
    assert driver_facts(log, cluster, Whose("unknown")) is None
    assert cluster.searched == []


@pytest.mark.parametrize(
    ("states", "of", "expected"),
    [
        ({SAID: DriverState.RUNNING}, {}, (SAID, DriverState.RUNNING, False, False)),
        ({SAID: DriverState.UNKNOWN}, {}, (SAID, DriverState.UNKNOWN, False, False)),
        ({SAID: DriverState.KILLED}, {}, (RECORDED, DriverState.FINISHED, True, False)),
        ({SAID: DriverState.KILLED}, {SAID: Remains(lost=("x",))}, (RECORDED, DriverState.FINISHED, False, True)),
        ({SAID: DriverState.KILLED}, {SAID: Remains(alive=("x",))}, (RECORDED, DriverState.FINISHED, False, False)),
        (
            {SAID: DriverState.KILLED},
            {RECORDED: Remains(lost=("x",)), SAID: Remains(alive=("x",))},
            (RECORDED, DriverState.FINISHED, False, False),
        ),
    ],
)
def test_of_two_drivers_of_a_deployment_both_must_be_gone(
    log: ControlLog,
    cluster: NotingCluster,
    states: dict[str, DriverState],
    of: dict[str, Remains],
    expected: tuple[str, DriverState, bool, bool],
) -> None:
    write(log, *RUNNING)
    log.beat(OLD, Heartbeat(submission=SAID))
    cluster.states, cluster.of = {RECORDED: DriverState.FINISHED, **states}, of
    found = driver_facts(log, cluster, Whose(OLD_DEPLOYMENT))
    assert found is not None
    assert (found.submission, found.state, found.gone, found.lost) == expected


def test_a_submission_that_the_cluster_has_forgotten_is_out_of_sight_and_never_gone(
    log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *RUNNING)
    cluster.states = {RECORDED: DriverState.LOST}
    cluster.of = {RECORDED: Remains(lost=("The master does not know it.",))}
    found = driver_facts(log, cluster, Whose(OLD_DEPLOYMENT))
    assert found is not None
    assert (found.state, found.gone, found.out_of_sight) == (DriverState.LOST, False, True)


def test_an_id_that_is_only_reserved_is_neither_alive_nor_gone_until_its_deployment_has_ended(
    log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, STARTED[0], STARTED[1])
    cluster.states = {RECORDED: DriverState.RESERVED}
    found = driver_facts(log, cluster, Whose(OLD_DEPLOYMENT))
    assert found is not None
    assert (found.state, found.out_of_sight) == (DriverState.RESERVED, False)
    write(log, retired(OLD_DEPLOYMENT))
    found = driver_facts(log, cluster, Whose(OLD_DEPLOYMENT))
    assert found is not None
    assert (found.state, found.gone) == (DriverState.LOST, True), "its driver would read that it is not wanted"


@pytest.mark.parametrize("announced", [True, False])
def test_a_driver_that_was_there_and_that_the_cluster_has_forgotten_is_lost(
    log: ControlLog, cluster: NotingCluster, announced: bool
) -> None:
    write(log, *(RUNNING if announced else STARTED[:2]))
    if not announced:
        log.beat(OLD, Heartbeat())
    cluster.states = {RECORDED: DriverState.RESERVED}
    found = driver_facts(log, cluster, Whose(OLD_DEPLOYMENT))
    assert found is not None
    assert found.state is DriverState.LOST


@pytest.mark.parametrize(
    ("found", "left", "expected"),
    [
        (FoundDrivers(), (), (DriverState.LOST, False, True)),
        (FoundDrivers(), ("an executor",), (DriverState.LOST, False, False)),
        (FoundDrivers(ended=("driver-3",)), (), (DriverState.LOST, False, True)),
        (FoundDrivers(alive=("driver-1",)), (), (DriverState.RUNNING, False, False)),
        (FoundDrivers(certain=False), (), (DriverState.UNKNOWN, False, False)),
    ],
)
def test_a_driver_whose_submission_nobody_knows_is_lost_when_the_cluster_has_none(
    log: ControlLog,
    cluster: NotingCluster,
    found: FoundDrivers,
    left: tuple[str, ...],
    expected: tuple[DriverState, bool, bool],
) -> None:
    write(log, *(each for each in RUNNING if each.kind != "submitted"))
    cluster.found, cluster.left, cluster.states = found, left, {"driver-1": DriverState.RUNNING}
    facts = driver_facts(log, cluster, Whose(OLD_DEPLOYMENT))
    assert facts is not None
    assert (facts.state, facts.gone, facts.lost) == expected
    cluster.error = ClusterError("Away.")
    facts = driver_facts(log, cluster, Whose(OLD_DEPLOYMENT))
    assert facts is not None
    assert (facts.state, facts.out_of_sight) == (DriverState.UNKNOWN, False)


@pytest.mark.parametrize(
    ("said", "hosts"),
    [([("a", "b")], {"a", "b"}), ([("a",), ("b",)], {"a", "b"}), ([("a",), None], None), ([None], None), ([], None)],
    ids=["one driver", "relaunched", "one has not said", "not said", "no heartbeat"],
)
def test_the_hosts_of_executors_are_known_if_each_driver_has_said_them(
    log: ControlLog, cluster: NotingCluster, said: list[tuple[str, ...] | None], hosts: set[str] | None
) -> None:
    write(log, *RUNNING)
    for number, named in enumerate(said):
        log.beat(f"{OLD_DEPLOYMENT}.0000000{number + 1}", Heartbeat(executor_hosts=named))
    cluster.states = {RECORDED: DriverState.KILLED}
    driver_facts(log, cluster, Whose(OLD_DEPLOYMENT))
    assert cluster.hosts == hosts


def test_what_only_a_heartbeat_names_is_not_killed_if_the_cluster_runs_it_for_somebody_else(
    log: ControlLog, cluster: NotingCluster, caplog: pytest.LogCaptureFixture
) -> None:
    write(log, *STARTED)
    log.beat(OLD, Heartbeat(submission="team-b/driver", application_id="app-b"))
    log.beat(f"{OLD_DEPLOYMENT}.0000000b", Heartbeat(submission=SAID, application_id="app-a"))
    # What the log and the cluster name is killed without a question: a wrong answer would fence nobody.
    cluster.strangers = {"team-b/driver", "app-b", RECORDED, "driver-3"}
    cluster.found = FoundDrivers(alive=("driver-3",))
    kill_drivers(log, cluster, Whose(OLD_DEPLOYMENT))
    assert cluster.did == [("kill", "driver-3"), ("kill", RECORDED), ("kill", SAID)]
    assert cluster.applications == {"app-a"}
    warned = "".join(each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    assert [warned.count(f" names {id}, ") for id in ("team-b/driver", "app-b", RECORDED)] == [1, 1, 0]
    cluster.states = {RECORDED: DriverState.KILLED, SAID: DriverState.KILLED, "team-b/driver": DriverState.RUNNING}
    found = driver_facts(log, cluster, Whose(OLD_DEPLOYMENT))
    assert found is not None
    assert not found.gone, "it counts all the same"


def test_while_the_cluster_does_not_answer_what_is_certain_is_killed_before_what_is_not(
    log: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, *STARTED)
    log.beat(OLD, Heartbeat(submission="another/driver"))

    def refused(ids: list[str], whose: Whose) -> Mapping[str, DriverView]:
        raise ClusterError("It does not allow it.")

    monkeypatch.setattr(cluster, "look", refused)
    with pytest.raises(ClusterError, match="does not allow it"):
        kill_drivers(log, cluster, Whose(OLD_DEPLOYMENT))
    assert cluster.did == [("kill", RECORDED)]
