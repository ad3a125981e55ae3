"""The nemesis, with a real control log and real processes; sleeping shells stand in for Spark, Kafka and Airflow."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.topic import READ_BYTES, Fetched
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from chaos import faults
from chaos.clock import Clocks
from chaos.faults import Nemesis
from chaos.journal import Journal
from chaos.plan import PlannedFault, Trigger
from chaos.store_faults import Checkpoints, ControlFolder
from chaos.topic_copy import TopicCopy
from chaos.topic_log import TopicLog
from devstack.drivers import wait_for
from devstack.processes import Process, Processes
from tests.support import story
from tests.support.control_root import new_log
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic
from tests.support.stack_of_processes import NamedStack
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, write

COMMITS = Heartbeat(phase="running", queries=(QueryProgress("a", batch=3, commits=(Commit(1.0),)),))


class PretendedFolder(ControlFolder):
    """Its faults do nothing: they need a namespace of their own."""

    def fail(self, kind: str) -> None:
        pass

    def heal(self, kind: str) -> None:
        pass


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
    control = PretendedFolder(tmp_path / "control", tmp_path / "control", tmp_path / "elsewhere")
    stack: Any = NamedStack(processes)
    nemesis = Nemesis(
        stack,
        new_log((tmp_path / "control").as_uri()),
        control,
        Clocks(tmp_path / "clocks"),
        journal,
        lambda line: None,
        checkpoints=Checkpoints([tmp_path / "enrich"], tmp_path / "aside"),
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


def test_a_checkpoint_is_moved_away_and_put_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, seen = site.folder / "enrich", undone_once_seen(site.nemesis, monkeypatch)
    checkpoint.mkdir()
    site.nemesis.arm(1, [fault("checkpoint", "checkpoint_away")])
    wait_for("the fault", lambda: site.noted("fault"))
    assert not checkpoint.exists()
    seen.set()
    wait_for("the end of it", lambda: site.noted("healed"))
    assert checkpoint.is_dir()


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


def test_a_part_that_was_killed_is_started_again_and_is_back_when_its_port_answers(site: Site) -> None:
    go = site.folder / "go"
    serve = f"until [ -e {go} ]; do sleep 0.05; done; exec {sys.executable} -m http.server 0 --bind 127.0.0.1"
    master = site.processes.start("spark-master", ["bash", "-c", serve], env={}, folder=site.folder)
    site.nemesis.arm(1, [fault("master", "kill", 0.5)])
    wait_for("the kill", lambda: not master.alive)
    wait_for("the restart", lambda: site.processes.named("spark-master").alive)
    time.sleep(0.5)
    assert site.noted("healed") == []
    assert site.nemesis.lasting == 1
    go.touch()
    wait_for("the entry", lambda: [entry["id"] for entry in site.noted("healed")] == ["1.1"])
    assert site.nemesis.last_healed > 0


def test_a_driver_that_is_being_killed_is_no_target_any_more(site: Site) -> None:
    driver = site.sleeper("driver", "--deployment", OLD_DEPLOYMENT)
    torn = fault("holder", "torn_heartbeat", 600.0)
    site.nemesis.arm(1, [fault("holder", "kill"), torn, fault("holder_python", "freeze", 60.0)])
    wait_for("the kill", lambda: not driver.alive)
    time.sleep(0.5)
    assert [entry["id"] for entry in site.noted("fault")] == ["1.1"]
    assert site.nemesis.waiting == 2
    assert [site.nemesis._drivers(), site.nemesis.missed] == [[], set()]
    site.nemesis.skip("it is dead")
    assert site.nemesis.missed == {torn.cell, fault("holder_python", "freeze").cell}


def test_a_fault_of_the_folder_notes_who_lived(site: Site) -> None:
    site.sleeper("airflow-triggerer")
    site.nemesis.arm(1, [fault("control", "read_only", 1.0)])
    wait_for("the end of it", lambda: site.noted("healed"))
    assert [entry["drivers"] for entry in site.noted("fault")] == [[]]
    assert [entry["users"] for entry in site.noted("healed")] == [["triggerer"]]


def test_a_fault_of_the_folder_waits_for_a_standby_with_a_name(site: Site) -> None:
    write(site.log, story.declared(NEW_DEPLOYMENT), story.submitted(NEW_DEPLOYMENT))
    site.sleeper("driver", "--deployment", NEW_DEPLOYMENT)
    site.nemesis.arm(1, [PlannedFault(Trigger("submitted", with_standby=True), "control", "read_only", 1.0)])
    time.sleep(1.0)
    assert site.nemesis.waiting == 1
    site.log.beat(NEW, Heartbeat(phase="starting"))
    wait_for("the fault", lambda: site.noted("fault"))
    assert site.noted("fault")[0]["drivers"] == ["standby"]


def test_what_strikes_in_another_state_than_it_should_has_missed_its_cell(site: Site) -> None:
    site.sleeper("driver", "--deployment", OLD_DEPLOYMENT)
    early = PlannedFault(Trigger("released", 0.0, "holder", 0), "holder", "freeze", 0.2)
    site.nemesis.arm(1, [early])
    wait_for("the end of it", lambda: site.noted("healed"))
    assert site.nemesis.missed == {early.cell}


def test_what_strikes_while_the_state_changes_has_missed_its_cell(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.sleeper("driver", "--deployment", OLD_DEPLOYMENT)
    freeze = fault("holder", "freeze", 0.2)
    act = site.nemesis._act

    def late(armed: Any) -> None:
        """It was found slowly, and another driver has begun to come up."""
        write(site.log, story.declared(NEW_DEPLOYMENT), story.submitted(NEW_DEPLOYMENT))
        act(armed)

    monkeypatch.setattr(site.nemesis, "_act", late)
    site.nemesis.arm(1, [freeze])
    wait_for("the end of it", lambda: site.noted("healed"))
    [noted] = site.noted("fault")
    assert (noted["state"], noted["between"]) == ("running", True)
    assert site.nemesis.missed == {freeze.cell}


def test_a_fault_of_airflow_is_none_that_the_stream_recovers_from(site: Site) -> None:
    site.sleeper("airflow-triggerer")
    site.nemesis.arm(1, [fault("triggerer", "freeze", 0.5)])
    wait_for("the end of it", lambda: site.noted("healed"))
    assert (site.nemesis.last_healed, site.nemesis.last_fault) == (0.0, "")
    [(began, ended)] = site.nemesis.excused
    assert 0.4 < ended - began < 60


def test_a_fault_whose_event_does_not_come_is_skipped_and_said_so(site: Site) -> None:
    site.nemesis.arm(1, [fault("standby", "kill", state="ready")])
    assert site.nemesis.waiting == 1
    site.nemesis.skip("it was enough")
    (noted,) = site.noted("skipped")
    assert (noted["id"], noted["target"], noted["kind"]) == ("1.1", "standby", "kill")
    assert noted["why"] == "as soon as the stream is ready: it was enough"
    assert site.noted("fault") == []


def test_an_event_without_its_target_waits_for_it(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setattr(faults, "SERVES_SECONDS", 0.0)  # it has no port
    site.nemesis.arm(1, [fault("broker", "kill", 60.0)])
    time.sleep(0.2)
    assert site.nemesis.waiting == 1
    broker = site.sleeper("kafka")
    wait_for("the kill", lambda: not broker.alive)


def test_a_heartbeat_is_torn_again_and_again(site: Site) -> None:
    site.nemesis.arm(1, [fault("holder", "torn_heartbeat", 600.0)])
    site.sleeper("driver", "--deployment", OLD_DEPLOYMENT)
    for counter in (2, 3):
        site.log.beat(OLD, replace(COMMITS, counter=counter))
        wait_for("the tear", lambda: site.log.heartbeat(OLD) is None)


def test_a_heartbeat_that_is_not_there_yet_is_waited_for(site: Site) -> None:
    write(site.log, story.declared(NEW_DEPLOYMENT), story.submitted(NEW_DEPLOYMENT))
    site.sleeper("driver", "--deployment", NEW_DEPLOYMENT)
    site.nemesis.arm(1, [fault("standby", "torn_heartbeat", 600.0, state="submitted")])
    time.sleep(1.0)
    site.log.beat(NEW, Heartbeat(phase="starting"))
    wait_for("the tear", lambda: site.log.heartbeat(NEW) is None)
    assert [entry["incarnation"] for entry in site.noted("fault")] == [NEW]


def test_a_clock_is_jumped_and_set_right(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = undone_once_seen(site.nemesis, monkeypatch)
    driver = site.sleeper("driver", "--deployment", OLD_DEPLOYMENT)
    site.nemesis.arm(1, [fault("holder_python", "clock_jump", 0.5, jump=-60.0)])
    clock = site.folder / "clocks" / str(driver.pid)
    wait_for("the jump", clock.exists)
    assert clock.read_text() == "-60.0"
    seen.set()
    wait_for("the end of it", lambda: not clock.exists())


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


def test_a_storage_is_frozen_for_a_while_and_the_stream_recovers_from_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = Processes(tmp_path / "logs")
    journal = Journal(tmp_path / "journal.jsonl")
    stack: Any = NamedStack(processes)
    log = new_log((tmp_path / "control").as_uri())
    write(log, *story.RUNNING)
    log.beat(OLD, COMMITS)
    try:
        server = processes.start("hdfs", ["sleep", "600"], env={}, folder=tmp_path)
        clocks = Clocks(tmp_path / "clocks")
        # No control folder: the log is in Kafka.
        nemesis = Nemesis(stack, log, None, clocks, journal, lambda line: None, psutil.Process(server.pid))
        seen = undone_once_seen(nemesis, monkeypatch)
        with nemesis:
            nemesis.arm(1, [fault("storage", "freeze", 1.0)])
            wait_for("the freeze", lambda: stopped(server))
            seen.set()
            wait_for("the end of it", lambda: not stopped(server) and not nemesis.lasting)
        assert nemesis.last_fault == "1.1"
        assert nemesis.last_healed > 0
        [noted] = [entry for entry in journal.entries() if entry["what"] == "fault"]
        assert (noted["target"], noted["incarnation"], noted["pids"]) == ("storage", "", [server.pid])
    finally:
        processes.close()


def test_a_fault_ends_in_time_while_nothing_can_be_read_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker that has the log is frozen: a topic in memory that hangs stands for it, a sleeping shell for Kafka."""
    brokers, processes = SimulatedLog(), Processes(tmp_path / "logs")
    answers = threading.Event()
    answers.set()

    class Hanging(SimulatedTopic):
        def read(self, offset: int, size: int = READ_BYTES) -> Fetched:
            answers.wait()
            return super().read(offset, size)

    log = ControlLog(TopicStore(SimulatedTopic(brokers), "orders"), "orders")
    write(log, *story.RUNNING)
    log.beat(OLD, COMMITS)
    stack: Any = NamedStack(processes)
    journal = Journal(tmp_path / "journal.jsonl")
    broker = processes.start("kafka", ["sleep", "600"], env={}, folder=tmp_path)
    try:
        with TopicLog(Hanging(brokers), "orders") as read:
            followed = ControlLog(TopicCopy(read), "orders")
            nemesis = Nemesis(stack, followed, None, Clocks(tmp_path / "clocks"), journal, lambda line: None)
            seen = undone_once_seen(nemesis, monkeypatch)
            with nemesis:
                wait_for("the state", lambda: nemesis.events.name == "running")
                answers.clear()
                nemesis.arm(1, [fault("broker", "freeze", 1.0)])
                wait_for("the freeze", lambda: stopped(broker))
                seen.set()
                wait_for("the end of it", lambda: not stopped(broker) and not nemesis.lasting)
                assert nemesis.events.name == "running"
                write(log, *story.PREPARED[len(story.RUNNING) :])
                answers.set()
                wait_for("the standby", lambda: nemesis.events.name == "ready")
    finally:
        answers.set()
        processes.close()
