"""What the approver sees, and how an answer ends."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.runbook.approval import ApproveUpgradeOperator
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.control_root import new_log

TRICKY = '--note=`\n```\n| version | 1 |\n<img src="x">'
RELEASE = {
    "version": "2.0",
    "hash": "0123456789abcdef" * 4,
    "application": "orders.py",
    "arguments": ["--limit", "5", TRICKY],
    "py_files": ["scoring.py"],
    "conf": {"spark.cores.max": "2"},
}


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    return StreamSpec.model_validate(
        {
            "name": "orders",
            "application": "apps/orders.py",
            "version": "1.0",
            "cluster": "c",
            "control": f"file://{tmp_path}",
            "arguments": ["--limit", "5"],
            "upgrade": {"approval": True, "approvers": ["anna", "7"], "approval_timeout": "30m"},
        }
    )


def task(spec: StreamSpec) -> ApproveUpgradeOperator:
    return ApproveUpgradeOperator(
        task_id="approve",
        stream=spec,
        deployment="orders-2-1a2b",
        application="apps/orders.py",
        rehearsal='{"seconds": 3}',
        subject="Hand over?",
    )


def asked(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], timedelta | None]:
    """Return what Airflow is asked to show, and for how long."""
    sent: dict[str, Any] = {}
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **kw: sent.update(kw))
    context: Any = {
        "task_instance": SimpleNamespace(id="1"),
        "dag_run": SimpleNamespace(triggering_user_name="ben"),
    }
    with pytest.raises(TaskAwaitingInput) as waiting:
        task(spec).execute(context)
    return sent, waiting.value.timeout


def declare(spec: StreamSpec) -> None:
    log = new_log(spec.control, spec.name)
    policy = spec.policy(("/old",)).to_json()
    log.append(make_record("declared", "t", deployment="orders-2-1a2b", release=RELEASE, policy=policy, reason=""), 0)


def test_the_approver_sees_what_the_control_log_declares(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(spec)
    sent, timeout = asked(spec, monkeypatch)
    lines = sent["body"].split("\n")
    assert (lines[0], lines[-1]) == ("```json", "```")
    assert not any(line.lstrip().startswith(("`", "|", "<")) for line in lines[1:-1])
    shown = json.loads("\n".join(lines[1:-1]))
    folder = f"{spec.control.removeprefix('file://')}/orders/releases/{RELEASE['hash']}"
    assert shown == {
        "version": "2.0",
        "application": "apps/orders.py",
        "arguments": RELEASE["arguments"],
        "hash": RELEASE["hash"],
        "sources": {name: f"{folder}/{name}" for name in ("orders.py", "scoring.py")},
        "conf": RELEASE["conf"],
        "other_than_in_the_yaml": ["version", "arguments"],
        "changed_checkpoints": ["/old"],
        "no_way_back": False,
        "deployment": "orders-2-1a2b",
        "asked_by": "ben",
        "rehearsal": {"seconds": 3},
    }
    assert sent["assigned_users"] == [{"id": "anna", "name": "anna"}, {"id": "7", "name": "7"}]
    assert sent["options"] == ["Approve", "Reject"]
    assert (sent["defaults"], timeout) == (None, timedelta(minutes=30))


def test_an_approval_without_approvers_still_has_an_end(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(spec)
    plain = spec.model_copy(update={"upgrade": spec.upgrade.model_copy(update={"approvers": ()})})
    sent, timeout = asked(plain, monkeypatch)
    assert sent["assigned_users"] is None
    assert timeout == timedelta(minutes=30)


def answer(spec: StreamSpec, event: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    pushed: dict[str, Any] = {}
    context: Any = {"ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))}
    try:
        return task(spec).execute_complete(context, event), pushed
    except AirflowFailException as error:
        return str(error), pushed


def said(option: str) -> dict[str, Any]:
    who = {"id": "anna", "name": "anna"}
    now = datetime.now(UTC)
    return {"chosen_options": [option], "params_input": {}, "responded_at": now, "responded_by_user": who}


def test_an_answer_ends_as_what_it_is(spec: StreamSpec) -> None:
    result, pushed = answer(spec, said("Approve"))
    assert result["chosen_options"] == ["Approve"]
    assert pushed == {}
    assert answer(spec, said("Reject")) == ("Rejected by anna.", {"rejected_by": "anna"})
    sentence, pushed = answer(spec, {"error": "too late", "error_type": "timeout"})
    assert "Nobody answered within 0:30:00" in sentence
    assert pushed == {}
