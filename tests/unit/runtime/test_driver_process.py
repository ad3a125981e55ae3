"""How a driver's process ends, also when Spark or the JVM does not do what it is told."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from airflow_stream_provider import checkpoint
from airflow_stream_provider.lifecycle.errors import CheckpointError, ControlUnavailable, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.runtime import driver_process, jvm, places
from airflow_stream_provider.runtime.adopted_logs import AdoptedLogs
from airflow_stream_provider.runtime.driver_process import DriverProcess, ExecutorHosts
from airflow_stream_provider.runtime.jvm_topic import TopicDenied
from airflow_stream_provider.runtime.vitals import DriverVitals
from devstack import checkpoint_trees as trees


class Ended(BaseException):
    """The process has ended with this code."""


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Any:
    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(driver_process, "STOP_SECONDS", 0.1)
    made: Any = DriverProcess.__new__(DriverProcess)
    made._over = threading.Event()
    made._hook = SimpleNamespace(shutting_down=False)
    made._watchdog = SimpleNamespace(disarm=lambda: None)
    made.adopted, made._adopts = AdoptedLogs(), False
    return made


def fails() -> None:
    raise ConnectionError("The JVM cannot be reached.")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("hangs", [False, True])
def test_a_driver_exits_though_spark_does_not_stop(hangs: bool, process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog is disarmed by then: it would have held its cores for ever."""
    go_on = threading.Event()
    stop: Callable[[], object] = (lambda: go_on.wait(30)) if hangs else fails
    monkeypatch.setattr(SparkSession, "_instantiatedSession", SimpleNamespace(stop=stop))
    with pytest.raises(Ended) as ended:
        process.exit()
    assert ended.value.args == (0,)
    go_on.set()


class DeniedAtFirst:
    """Claims in a topic that the driver's user may not use, until a person has granted it that."""

    def __init__(self, process: Any) -> None:
        self.process = process
        self.said: list[str] = []

    def check(self, location: str) -> bool:
        self.said.append(self.process.facts.message)
        if len(self.said) < 3:
            raise ControlUnavailable("The driver's user may not use it.", next_step="Grant READ on the topic.")
        return True


def test_a_driver_says_why_its_rehearsal_waits_for_the_control_store(
    process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits as long as it takes: nobody waits for it who holds."""
    monkeypatch.setattr(places, "RETRY_SECONDS", 0.0)
    process._facts, process.hosts, process.vitals = Heartbeat(), ExecutorHosts(), DriverVitals(1)
    process._ownership, process._waits = DeniedAtFirst(process), ""
    process.check_checkpoint(str(tmp_path / "orders"))
    assert process._ownership.said == ["", *["The driver's user may not use it. Grant READ on the topic."] * 2]
    assert process.facts.message == ""


@pytest.mark.parametrize("silent", ["check", "claim"])
def test_a_claim_waits_for_nothing(silent: str, process: Any) -> None:
    """Who holds would hear of no stop and of no SIGTERM in there."""
    away = [True]

    def ask(what: str) -> bool:
        if what == silent and away:
            away.pop()
            raise ControlUnavailable("The claims are away.")
        return True

    process._ownership = SimpleNamespace(check=lambda location: ask("check"), claim=lambda location: ask("claim"))
    process._unowned = {}
    with pytest.raises(ControlUnavailable):
        process.claim("/checkpoints/orders")
    process.claim("/checkpoints/orders")


class Adopted:
    """The logs of the checkpoints that are to be adopted; notes what is asked of them."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.moving = "The logs of /cp were written 0 s ago."
        self.says = "batch 7 is under way."

    def refuse_if_moved(self, location: str, seconds: float) -> bool:
        self.did.append(f"refuse_if_moved {location}")
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda location: self.did.append(f"{name} {location}")


@pytest.mark.parametrize("owned", [True, False])
def test_a_checkpoint_that_is_to_be_adopted_is_watched_until_it_is_claimed(
    owned: bool, process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is the stream's own: somebody may have started its script by hand."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("it may be written")

    monkeypatch.setattr(checkpoint, "refuse_if_being_written", refuse)
    process._facts, process.hosts, process.vitals = Heartbeat(), ExecutorHosts(), DriverVitals(1)
    process.adopted, process._adopts, process._waits = Adopted(), True, ""
    process._unowned = {}
    process._ownership = SimpleNamespace(check=lambda location: owned, claim=lambda location: None)
    location = str(tmp_path / "cp")
    process.check_checkpoint(location)
    assert process.waits_for == "The logs of /cp were written 0 s ago."
    assert process.facts.message == "batch 7 is under way."
    process.claim(location)
    assert process.adopted.did == [f"watch {location}", f"refuse_if_moved {location}", f"let_go {location}"]


def test_a_late_query_of_a_driver_that_adopts_starts_on_no_checkpoint_that_is_being_written(
    process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what was watched since the rehearsal is that of the job."""
    job, late = (trees.new(tmp_path / name) for name in ("job", "late"))
    for root in (job, late):
        trees.plan(root, 0, "1")
        trees.commit(root, 0)
    written = threading.Event()

    def another_job(seconds: float) -> None:
        if not written.is_set():
            written.set()
            trees.plan(late, 1, "1")

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=another_job)
    monkeypatch.setattr(import_module("airflow_stream_provider.checkpoint.owner"), "time", clock)
    claimed: list[str] = []
    process.adopted, process._adopts, process._waits = AdoptedLogs(), True, ""
    process._unowned = {}
    process._ownership = SimpleNamespace(check=lambda location: False, claim=claimed.append)
    process.check_checkpoint(str(job))
    process.adopted._seen[str(job)] = replace(process.adopted._seen[str(job)], patience=0.0)
    process.claim(str(job))
    with pytest.raises(CheckpointError, match="does not belong to a stream"):
        process.claim(str(late))
    assert written.is_set()
    assert claimed == [str(job)]


def test_a_driver_halts_though_its_jvm_cannot_be_reached(process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "jvm", fails)
    with pytest.raises(Ended) as ended:
        process.halt()
    assert ended.value.args == (50,)


def test_claims_that_are_out_of_reach_are_waited_for_and_those_that_the_user_may_not_read_are_not(
    process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "RETRY_SECONDS", 0.0)
    answers: list[StreamError] = [TopicDenied("no right"), ControlUnavailable("away"), ControlUnavailable("away")]

    def check(location: str) -> bool:
        if answers:
            raise answers.pop()
        return True

    process._ownership = SimpleNamespace(check=check)
    with pytest.raises(TopicDenied, match="no right"):
        process.check_checkpoint(str(tmp_path / "checkpoint"))
    process.check_checkpoint(str(tmp_path / "checkpoint"))
    assert answers == []


@pytest.mark.parametrize(
    ("folder", "variables", "submission"),
    [
        ("driver-20261121023732-0002", {}, "driver-20261121023732-0002"),
        ("work", {"AIRFLOW_STREAM_SUBMISSION": "/c/orders/drivers/x"}, "/c/orders/drivers/x"),
        ("work", {"CONTAINER_ID": "container_e1_14_0003_01_000001"}, "application_14_0003"),
        ("work", {}, ""),
    ],
)
def test_a_driver_knows_its_submission_by_what_its_cluster_has_set(
    folder: str, variables: dict[str, str], submission: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / folder)
    for name in ("AIRFLOW_STREAM_SUBMISSION", "CONTAINER_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert driver_process._submission() == submission


def test_the_application_is_that_of_the_context_that_the_script_has_now(
    process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script may stop its SparkContext and make another, as in each round of a loop."""
    process._facts, process.hosts, process.vitals = Heartbeat(), ExecutorHosts(), DriverVitals(1)
    process._context, process._waits = None, ""
    told = []
    for number, complete in ((1, True), (1, False), (2, True)):
        context = SimpleNamespace(
            applicationId=f"app-{number}", uiWebUrl=f"http://ui/{number}", _jsc=object() if complete else None
        )
        monkeypatch.setattr(SparkContext, "_active_spark_context", context)
        told += [(process.facts.application_id, process.facts.ui_url)]
    assert told == [("app-1", "http://ui/1"), ("app-1", "http://ui/1"), ("app-2", "http://ui/2")]
