"""The nemesis, with a real control log and real processes; sleeping shells stand in for Spark, Kafka and Airflow."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from chaos.clock import Clocks
from chaos.faults import Nemesis
from chaos.journal import Journal
from chaos.plan import PlannedFault, Trigger
from chaos.store_faults import ControlFolder
from devstack.drivers import wait_for
from devstack.processes import Process, Processes
from tests.support import story
from tests.support.control_root import new_log
from tests.support.stack_of_processes import NamedStack
from tests.support.story import OLD, OLD_DEPLOYMENT, write

COMMITS = Heartbeat(phase="running", queries=(QueryProgress("a", batch=3, commits=(Commit(1.0),)),))


@dataclass
class Site:
    nemesis: Nemesis
    processes: Processes
    log: ControlLog
    journal: Journal
    folder: Path

    def sleeper(self, name: str, *words: str) -> Process:
        command = ["bash", "-c", 'exec -a "$0" sleep 600', " ".join((name, *words))]
        return self.processes.start(name, command, env={}, folder=self.folder)

    def noted(self, what: str) -> list[dict[str, Any]]:
        return [entry for entry in self.journal.entries() if entry["what"] == what]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    log = new_log((tmp_path / "control").as_uri())
    processes = Processes(tmp_path / "logs")
    journal = Journal(tmp_path / "journal.jsonl")
    control = ControlFolder(tmp_path / "control", tmp_path / "control", tmp_path / "elsewhere")
    stack: Any = NamedStack(processes)
    nemesis = Nemesis(
        stack,
        new_log((tmp_path / "control").as_uri()),
        control,
        Clocks(tmp_path / "clocks"),
        journal,
        lambda line: None,
    )
    write(log, *story.RUNNING)
    log.beat(OLD, COMMITS)
    try:
        with nemesis:
            yield Site(nemesis, processes, log, journal, tmp_path)
    finally:
        processes.close()


def fault(target: str, kind: str, seconds: float = 0.0, state: str = "running", **more: float) -> PlannedFault:
    return PlannedFault(Trigger(state), target, kind, seconds, **more)


def stopped(process: Process) -> bool:
    return bool(psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)


def undone_once_seen(nemesis: Nemesis, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let faults last until the test has seen them: a busy machine may keep it from looking for longer than that."""
    seen, undo = threading.Event(), nemesis._undo

    def wait_and_undo(armed: Any) -> None:
        seen.wait(60)
        undo(armed)

    monkeypatch.setattr(nemesis, "_undo", wait_and_undo)
    return seen


def test_a_driver_is_killed_and_nobody_else(site: Site) -> None:
    driver, other = site.sleeper("driver", "--deployment", OLD_DEPLOYMENT), site.sleeper("other")
    site.nemesis.arm(1, [fault("holder", "kill")])
    wait_for("the kill", lambda: not driver.alive)
    wait_for("the end of it", lambda: site.noted("healed"))
    (noted,) = site.noted("fault")
    assert (noted["id"], noted["state"], noted["incarnation"]) == ("1.1", "running", OLD)
    assert noted["between"] is False
    assert (noted["pids"], noted["drivers"]) == ([driver.pid], ["holder"])
    assert other.alive


def test_a_driver_is_frozen_for_a_while(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = undone_once_seen(site.nemesis, monkeypatch)
    driver = site.sleeper("driver", "--deployment", OLD_DEPLOYMENT)
    site.nemesis.arm(1, [fault("holder_python", "freeze", 1.0)])
    wait_for("the freeze", lambda: stopped(driver))
    seen.set()
    wait_for("the end of it", lambda: not stopped(driver))
    assert site.nemesis.last_fault == "1.1"


def test_a_fault_whose_event_does_not_come_is_skipped_and_said_so(site: Site) -> None:
    site.nemesis.arm(1, [fault("standby", "kill", state="ready")])
    assert site.nemesis.waiting == 1
    site.nemesis.skip("it was enough")
    (noted,) = site.noted("skipped")
    assert (noted["id"], noted["target"], noted["kind"]) == ("1.1", "standby", "kill")
    assert noted["why"] == "as soon as the stream is ready: it was enough"
    assert site.noted("fault") == []


def test_a_heartbeat_is_torn_again_and_again(site: Site) -> None:
    site.nemesis.arm(1, [fault("holder", "torn_heartbeat", 600.0)])
    site.sleeper("driver", "--deployment", OLD_DEPLOYMENT)
    for counter in (2, 3):
        site.log.beat(OLD, replace(COMMITS, counter=counter))
        wait_for("the tear", lambda: site.log.heartbeat(OLD) is None)


def test_at_the_end_everything_is_healed(site: Site) -> None:
    driver = site.sleeper("driver", "--deployment", OLD_DEPLOYMENT)
    site.nemesis.arm(1, [fault("holder", "freeze", 600.0), fault("standby", "kill", state="ready")])
    wait_for("the freeze", lambda: stopped(driver))
    site.nemesis.heal_all()
    wait_for("the end of it", lambda: not stopped(driver))
    assert (site.nemesis.waiting, site.nemesis.lasting) == (0, 0)
    assert [entry["id"] for entry in site.noted("skipped")] == ["1.2"]


def test_what_ends_the_thread_is_raised_where_it_is_noticed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no more")

    monkeypatch.setattr(site.nemesis.events, "look", broken)
    wait_for("the end of the thread", lambda: site.nemesis._error)
    with pytest.raises(OSError, match="no more"):
        site.nemesis.check()
