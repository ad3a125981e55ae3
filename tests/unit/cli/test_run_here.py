"""An operator runs in this process: its steps, its waits, its ends; what it says goes to standard error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.cli import run_here as module
from airflow_stream_provider.cli.run_here import Exit, Ran, run_here
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks import stream
from airflow_stream_provider.lifecycle.errors import ClusterError, HandOverFailed
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.planning.conditions import Pause
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Kill, Skip, Step, TaskIdentity, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.control_root import log_of
from tests.support.noting_cluster import NotingCluster
from tests.support.story import OLD_DEPLOYMENT, RUNNING
from tests.support.tasks import IDENTITY, spec_in

SOON, LATE = Pause(OLD_DEPLOYMENT, 0.0), Pause(OLD_DEPLOYMENT, 4e9)


class Steps(StreamOperator):
    """Its plan is a list of steps; `told` is how the waits between them ended."""

    def __init__(self, *, steps: Sequence[Step], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.left = list(steps)
        self.told: list[WaitOutcome | None] = []

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        self.told.append(outcome)
        return self.left.pop(0)

    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        return {**done, "more": True}

    def wait_hint(self, identity: TaskIdentity) -> str:
        return "It is queued."


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> NotingCluster:
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_CONNECTION", "spark://master")
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_KAFKA", "kafka://")
    found = NotingCluster()
    found.logs[f"driver-{OLD_DEPLOYMENT}"] = "Boom"
    monkeypatch.setattr(stream, "open_cluster", lambda connection: found)
    return found


@pytest.fixture
def log(tmp_path: Path, cluster: NotingCluster) -> ControlLog:
    return log_of(f"file://{tmp_path}", *RUNNING)


def ran(tmp_path: Path, *steps: Step, seconds: float | None = None) -> tuple[Ran, Steps]:
    operator = Steps(task_id="t", steps=steps, stream=spec_in(tmp_path), wait_seconds=seconds)
    return run_here(operator, IDENTITY), operator


def test_it_goes_on_from_step_to_step_until_it_is_done(tmp_path: Path, log: ControlLog, cluster: NotingCluster) -> None:
    asks = Append("requested", {"request": "r", "to": None, "expires": 4e9, "reason": "x"})
    found, operator = ran(tmp_path, asks, Wait(SOON), Kill(OLD_DEPLOYMENT, SOON), Done({"stream": "orders"}))
    assert (found.code, found.result) == (Exit.DONE, {"stream": "orders", "more": True})
    assert found.snapshot is not None
    assert (found.snapshot.state.seq, log.records()[-1].by) == (len(RUNNING) + 1, IDENTITY.by)
    assert [outcome and outcome.ended for outcome in operator.told] == [None, None, Ended.REACHED, Ended.REACHED]
    assert cluster.did == [("kill", f"driver-{OLD_DEPLOYMENT}")]


def test_a_skip_says_why_there_is_nothing_to_do(tmp_path: Path, log: ControlLog) -> None:
    found, _ = ran(tmp_path, Skip("There is nothing."))
    assert (found.code, found.result, found.said) == (Exit.DONE, {}, "There is nothing.")


def test_a_failure_shows_the_end_of_the_drivers_log(tmp_path: Path, log: ControlLog) -> None:
    found, _ = ran(tmp_path, GiveUp(HandOverFailed("It broke.", next_step="Mend it."), log_of=OLD_DEPLOYMENT))
    assert found.code is Exit.FAILED
    assert found.said.startswith("It broke. Mend it.")
    assert found.said.endswith("Boom")


def test_a_wait_that_is_too_long_ends_and_what_is_known_is_said(
    tmp_path: Path, log: ControlLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.0)
    found, _ = ran(tmp_path, Wait(LATE, log_of=OLD_DEPLOYMENT), seconds=0.5)
    assert found.code is Exit.UNKNOWN
    assert found.said.endswith("It is queued. It was waited for 0 s.")
    said = capsys.readouterr()
    assert said.out == ""
    assert "has not written to the control log yet. It is queued." in said.err
    assert "still waiting for the cluster to know whether" in said.err


def test_a_cluster_that_does_not_answer_is_told_to_who_calls(
    tmp_path: Path, log: ControlLog, cluster: NotingCluster
) -> None:
    cluster.error = ClusterError("The master does not answer.", next_step="Wait.")
    with pytest.raises(ClusterError):
        ran(tmp_path, Kill(OLD_DEPLOYMENT, SOON))
