"""What is said before and after an operation by hand, on a real control log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.planning.operation import FOR_GOOD
from airflow_stream_provider.runbook.by_hand import ConfirmOperator, LookAheadOperator, TellOperator
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.control_root import new_log
from tests.support.snapshots import RUNNING
from tests.support.story import OLD, OLD_DEPLOYMENT, write
from tests.support.tasks import spec_in


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamSpec:
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_CONNECTION", "spark://master")
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_KAFKA", "kafka://")
    return spec_in(tmp_path)


@pytest.fixture
def log(spec: StreamSpec) -> ControlLog:
    found = new_log(spec.control, spec.name)
    write(found, *RUNNING)
    return found


def look(spec: StreamSpec, operation: str, reason: str = "disk of w3", confirmed_by: str = "", at: float = 1e9) -> Any:
    operator = LookAheadOperator(
        task_id="look", stream=spec, operation=operation, reason=reason, confirmed_by=confirmed_by
    )
    context: Any = {"dag_run": SimpleNamespace(run_after=datetime.fromtimestamp(at, UTC))}
    return operator.execute(context)


def test_a_look_says_what_will_happen_and_touches_nothing(spec: StreamSpec, log: ControlLog) -> None:
    before = log.refresh().seq
    found = look(spec, "stop")
    assert found["lines"][0].startswith(f"orders is running: driver {OLD} with release 1 (")
    assert (found["parts"], found["reason"], found["deployment"]) == (["stop"], "disk of w3", "")
    assert look(spec, "fence")["deployment"] == OLD_DEPLOYMENT
    assert look(spec, "retire")["reason"] == f"{FOR_GOOD}disk of w3"
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


def confirm(ask: str = "True", parts: str = '["stop"]') -> ConfirmOperator:
    return ConfirmOperator(task_id="confirm", ask=ask, parts=parts, subject="stop?", body="orders is running.")


def test_a_person_is_asked_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **kw: sent.update(kw))
    context: Any = {"task_instance": SimpleNamespace(id="1")}
    with pytest.raises(TaskAwaitingInput) as waiting:
        confirm().execute(context)
    assert sent["body"] == "orders is running."
    assert waiting.value.timeout is not None
    assert waiting.value.timeout.total_seconds() == 3600


@pytest.mark.parametrize(("ask", "parts"), [("False", '["stop"]'), ("True", "[]")])
def test_nobody_is_asked_who_need_not_be(ask: str, parts: str) -> None:
    with pytest.raises(AirflowSkipException):
        confirm(ask, parts).execute({})


def test_without_a_yes_nothing_is_done() -> None:
    no: dict[str, Any] = {"chosen_options": ["Reject"], "responded_by_user": {"id": "1", "name": "anna"}}
    with pytest.raises(AirflowFailException, match=r"Nothing was done: anna said no\."):
        confirm().execute_complete({}, no)
    for error, says in (("timeout", "nobody answered within 1:00:00"), ("other", "the answer cannot be used")):
        with pytest.raises(AirflowFailException, match=f"Nothing was done: {says}"):
            confirm().process_trigger_event_error({"error": "x", "error_type": error})


def test_what_was_done_is_told_in_one_line(spec: StreamSpec, log: ControlLog) -> None:
    looked = look(spec, "stop")
    pulled = {"look": looked, "stop": {"stopped": True, "boundary": "completed"}}
    pushed: dict[str, str] = {}
    ti = SimpleNamespace(
        xcom_pull=lambda task_ids: pulled.get(task_ids), xcom_push=lambda key, value: pushed.update({key: value})
    )
    context: Any = {"ti": ti}
    line = TellOperator(task_id="tell", stream=spec).execute(context)
    assert line.startswith(
        "Stopped: disk of w3. Every query stopped at a batch boundary: nothing is read again. It was "
    )
    assert "\n" not in line
    assert pushed == {"line": line}
