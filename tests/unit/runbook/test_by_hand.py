"""What is said before and after an operation by hand, on a real control log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.runbook.by_hand import ConfirmOperator, LookAheadOperator, TellOperator, upgrade_run
from airflow_stream_provider.runbook.question import WAITS
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.control_root import log_of
from tests.support.snapshots import RUNNING
from tests.support.story import OLD, OLD_DEPLOYMENT
from tests.support.tasks import spec_in


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamSpec:
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_CONNECTION", "spark://master")
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_KAFKA", "kafka://")
    return spec_in(tmp_path)


@pytest.fixture
def log(spec: StreamSpec) -> ControlLog:
    return log_of(spec.control, *RUNNING)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The application is where the YAML of these tests, which is no file, says."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("x = 1\n")


def look(
    spec: StreamSpec,
    operation: str,
    reason: str = "disk of w3",
    confirmed_by: str = "",
    at: float = 1e9,
    release: str = "",
    upgrades: tuple[str, ...] = (),
    paused: bool = False,
) -> Any:
    """Look ahead while these runs of the upgrade's DAG are under way."""

    def count(dag_id: str, states: list[str], run_ids: Sequence[str] = upgrades) -> int:
        assert (dag_id, states) == ("orders__upgrade", ["queued", "running"])
        return len(set(upgrades) & set(run_ids))

    operator = LookAheadOperator(
        task_id="look",
        stream=spec,
        asked={
            "operation": operation,
            "reason": reason,
            "confirmed_by": confirmed_by,
            "release": release,
            "job": "",
            "to": "",
            "query": "",
        },
        upgrade_dag_id="orders__upgrade",
    )
    run = SimpleNamespace(run_after=datetime.fromtimestamp(at, UTC))
    ti = SimpleNamespace(get_dr_count=count, get_dag=lambda dag_id: SimpleNamespace(is_paused=paused))
    context: Any = {"dag_run": run, "run_id": "mine", "ti": ti}
    return operator.execute(context)


def test_a_look_says_what_will_happen_and_touches_nothing(spec: StreamSpec, log: ControlLog) -> None:
    before = log.refresh().seq
    found = look(spec, "stop")
    assert found["lines"][0].startswith(f"orders is running: driver {OLD} with release 1 (")
    assert (found["parts"], found["reason"], found["deployment"]) == (["stop"], "disk of w3", "")
    assert look(spec, "fence")["deployment"] == OLD_DEPLOYMENT
    assert look(spec, "retire")["reason"] == "disk of w3"
    assert log.refresh().seq == before


def test_who_has_come_to_hold_since_it_was_triggered_is_left_alone(spec: StreamSpec, log: ControlLog) -> None:
    """Somebody has cleared the run, perhaps with many others."""
    found = look(spec, "fence", at=1.0)
    assert found["parts"] == []
    assert "has come to hold since this was asked for" in found["done"]


@pytest.mark.parametrize(
    ("operation", "given", "says"),
    [
        ("roll-back", {}, r"orders is running: .* nothing was touched: No release is known that held before"),
        ("stop", {"reason": " "}, "There is no reason"),
        ("stop", {"reason": "token=abcdefabcdefabcdef"}, "looks like a secret"),
        ("stop", {"confirmed_by": "Ada"}, "Only a fence goes by a person's word"),
        ("restart", {}, "nothing was touched: .*a.py"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(
    spec: StreamSpec, log: ControlLog, operation: str, given: dict[str, Any], says: str
) -> None:
    before = log.refresh().seq
    with pytest.raises(AirflowFailException, match=says):
        look(spec, operation, **given)
    assert log.refresh().seq == before


def test_while_an_upgrade_is_under_way_there_is_no_second_one(spec: StreamSpec, log: ControlLog, app: None) -> None:
    found = look(spec, "upgrade")
    assert (found["parts"], found["release"]) == (["upgrade"], "")
    assert look(spec, "upgrade", upgrades=(upgrade_run("mine"),))["parts"] == ["upgrade"], "it is this run's own"
    with pytest.raises(AirflowFailException, match=r"Refused, .*: A run of orders__upgrade is under way"):
        look(spec, "upgrade", upgrades=("manual__1", upgrade_run("mine")))
    with pytest.raises(AirflowFailException, match="The DAG orders__upgrade is paused, and a run of it would wait"):
        look(spec, "upgrade", paused=True)
    assert look(spec, "stop", upgrades=("manual__1",), paused=True)["parts"] == ["stop"]


def test_only_a_redeployment_is_of_a_stored_release(spec: StreamSpec, log: ControlLog) -> None:
    with pytest.raises(AirflowFailException, match="Only a redeployment is of a stored release"):
        look(spec, "stop", release="abcd")
    with pytest.raises(AirflowFailException, match="no stored release of which the hash begins with 'abcd'"):
        look(spec, "redeploy", release="abcd")


def confirm(ask: str = "True", parts: str = '["stop"]') -> ConfirmOperator:
    return ConfirmOperator(task_id="confirm", ask=ask, parts=parts, subject="stop?", body="orders is running.")


def test_a_person_is_asked_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **kw: sent.update(kw))
    context: Any = {"task_instance": SimpleNamespace(id="1")}
    asked = confirm()
    with pytest.raises(WAITS):
        asked.execute(context)
    assert sent["body"] == "orders is running."
    assert asked.response_timeout == timedelta(hours=1)


@pytest.mark.parametrize(("ask", "parts"), [("False", '["stop"]'), ("True", "[]")])
def test_nobody_is_asked_who_need_not_be(ask: str, parts: str) -> None:
    with pytest.raises(AirflowSkipException):
        confirm(ask, parts).execute({})


def test_what_was_done_is_told_in_one_line(spec: StreamSpec, log: ControlLog) -> None:
    looked = look(spec, "stop")
    pulled = {"look": looked, "stop": {"stopped": True, "boundary": "completed"}}
    pushed: dict[str, str] = {}
    ti = SimpleNamespace(
        xcom_pull=lambda task_ids, key="": None if key else pulled.get(task_ids),
        xcom_push=lambda key, value: pushed.update({key: value}),
    )
    context: Any = {"ti": ti}
    line = TellOperator(task_id="tell", stream=spec).execute(context)
    assert line.startswith(
        "Stopped: disk of w3. Every query stopped at a batch boundary: nothing is read again. It was "
    )
    assert "\n" not in line
    assert pushed == {"line": line}


def test_what_was_skipped_is_not_told_as_done(spec: StreamSpec, log: ControlLog) -> None:
    said = {"look": look(spec, "stop")}
    ti = SimpleNamespace(xcom_pull=lambda task_ids: said.get(task_ids), xcom_push=lambda key, value: None)
    context: Any = {"ti": ti}
    line = TellOperator(task_id="tell", stream=spec).execute(context)
    assert line.startswith("Nothing was done: the task stop was skipped, and its log says why. ")


def test_an_upgrade_that_was_started_is_told_with_its_run(spec: StreamSpec, log: ControlLog, app: None) -> None:
    looked = look(spec, "upgrade")
    said = {"look": looked}
    ti = SimpleNamespace(xcom_pull=lambda task_ids: said.get(task_ids), xcom_push=lambda key, value: None)
    context: Any = {"ti": ti, "run_id": "mine"}
    line = TellOperator(task_id="tell", stream=spec).execute(context)
    assert line.startswith("Asked to upgrade: disk of w3. Run operate__mine does it, and goes on by itself.")
