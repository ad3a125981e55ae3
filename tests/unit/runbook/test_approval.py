"""What the approver sees, and how an answer ends."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.runbook.question import WAITS, ApproveUpgradeOperator
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.triggers.grace import TRIGGER_GRACE_SECONDS
from tests.support.control_root import log_of
from tests.support.snapshots import RUNNING
from tests.support.story import OLD, declared, wanted, write

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


INCONCLUSIVE = {"verdict": "inconclusive", "reasons": ["a: it is 3 times slower."]}


def task(spec: StreamSpec, judged: Any = INCONCLUSIVE, approval: str = "") -> ApproveUpgradeOperator:
    return ApproveUpgradeOperator(
        task_id="approve",
        stream=spec,
        family="new",
        application="apps/orders.py",
        rehearsal=json.dumps(judged),
        approval=approval,
        subject="Hand over?",
    )


def asked(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch, judged: Any = INCONCLUSIVE, approval: str = ""
) -> tuple[dict[str, Any], TaskDeferred]:
    """Return what Airflow is asked to show, and how the task waits."""
    sent: dict[str, Any] = {}
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **kw: sent.update(kw))
    context: Any = {
        "task_instance": SimpleNamespace(id="0197c1de-0000-7000-8000-000000000001"),
        "dag_run": SimpleNamespace(triggering_user_name="ben"),
    }
    with pytest.raises(TaskDeferred) as waiting:
        task(spec, judged, approval).execute(context)
    return sent, waiting.value


def shown_in(sent: dict[str, Any]) -> Any:
    """What the person sees."""
    return json.loads("\n".join(sent["body"].split("\n")[1:-1]))


def declare(spec: StreamSpec) -> None:
    policy = spec.policy(("/old",)).to_json()
    log_of(spec.control, wanted("new", "stand_by"), declared("orders-2-1a2b", "new", release=RELEASE, policy=policy))


def test_the_approver_sees_what_the_control_log_declares(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(spec)
    sent, waiting = asked(spec, monkeypatch)
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
        "asked_because": ["a: it is 3 times slower.", "`upgrade.approval` is on."],
        "rehearsal": INCONCLUSIVE,
    }
    assert sent["assigned_users"] == [{"id": "anna", "name": "anna"}, {"id": "7", "name": "7"}]
    assert sent["options"] == ["Approve", "Reject"]
    assert sent["defaults"] is None
    assert waiting.timeout == timedelta(minutes=30) + timedelta(seconds=TRIGGER_GRACE_SECONDS)
    path, waits = waiting.trigger.serialize()
    assert path == "airflow_stream_provider.triggers.stream.ApprovalTrigger"
    asked_in_any_case = {"condition": "Answered", "deployment": "orders-2-1a2b", "holding": "", "limits": None}
    assert waits["condition"] == asked_in_any_case
    assert 1790 < waits["deadline"] - time.time() <= 1800


def test_the_approver_sees_what_is_read_again(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was shown nowhere: a yes to a new release was one to records that come out twice."""
    log = log_of(spec.control, *RUNNING)
    beat = Heartbeat(1, 0.0, queries=(QueryProgress("enrich", commits=(Commit(0.0, {"orders": {"0": 72}}),)),))
    log.store.put_heartbeat(OLD, beat.to_json())
    rewind = {"to": 1764000000.0, "queries": {"enrich": {"orders": {"0": 7}}}}
    new = declared("orders-2-1a2b", "new", release=RELEASE, policy=spec.policy(()).to_json(), rewind=rewind)
    write(log, wanted("new", "stand_by"), new)
    sent, _ = asked(spec, monkeypatch, {"verdict": "pass", "reasons": []}, "True")
    shown = shown_in(sent)
    assert next(iter(shown)) == "reads_records_again"
    assert shown["reads_records_again"] == {
        "since": "2025-11-24 16:00:00 UTC",
        "queries": {"enrich": {"orders": {"records_so_far": 65, "from_offsets": {"0": 7}}}},
    }


def test_an_approval_without_approvers_still_has_an_end(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(spec)
    plain = spec.model_copy(update={"upgrade": spec.upgrade.model_copy(update={"approvers": ()})})
    sent, waiting = asked(plain, monkeypatch)
    assert sent["assigned_users"] is None
    assert waiting.timeout is not None


def unasked(spec: StreamSpec) -> StreamSpec:
    """The stream with `approval: false`."""
    return spec.model_copy(update={"upgrade": spec.upgrade.model_copy(update={"approval": False})})


@pytest.mark.parametrize("judged", [INCONCLUSIVE, None, {}, {"queries": {}}, {"verdict": "something new"}])
def test_who_needs_no_approval_is_asked_all_the_same_unless_the_rehearsal_has_passed(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch, judged: Any
) -> None:
    declare(spec)
    sent, waiting = asked(unasked(spec), monkeypatch, judged)
    assert sent["assigned_users"] == [{"id": "anna", "name": "anna"}, {"id": "7", "name": "7"}]
    because = ["a: it is 3 times slower."] if judged is INCONCLUSIVE else ["The rehearsal was not judged."]
    assert shown_in(sent)["asked_because"] == because
    assert waiting.trigger.serialize()[1]["condition"]["limits"] == spec.lag.limits.to_json(), "see `Answered`"


def test_of_one_that_holds_nobody_is_asked(spec: StreamSpec) -> None:
    log_of(spec.control, *RUNNING)
    mine = task(spec)
    mine.family = "old"
    with pytest.raises(AirflowSkipException, match="It holds the stream already"):
        mine.execute({})


def test_a_rehearsal_that_has_passed_asks_nobody(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(spec)
    context: Any = {}
    with pytest.raises(AirflowSkipException, match="the rehearsal has passed"):
        task(unasked(spec), {"verdict": "pass"}).execute(context)
    sent, _ = asked(spec, monkeypatch, {"verdict": "pass", "reasons": []})
    assert shown_in(sent)["asked_because"] == ["`upgrade.approval` is on."]


def test_a_run_asks_if_its_check_or_the_yaml_says_so(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(spec)
    passed = {"verdict": "pass", "reasons": []}
    sent, waiting = asked(unasked(spec), monkeypatch, passed, "True")
    assert shown_in(sent)["asked_because"] == ["`upgrade.approval` is on."]
    assert waiting.trigger.serialize()[1]["condition"]["limits"] is None
    for left in ("False", ""):  # XCom, which others than those who may edit the YAML may write
        sent, _ = asked(spec, monkeypatch, passed, left)
        assert shown_in(sent)["asked_because"] == ["`upgrade.approval` is on."]


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
    assert pushed == {"approved_by": "anna"}, "the gate opens by that"
    assert answer(spec, said("Reject")) == ("anna said no: the standby is ended.", {"rejected_by": "anna"})
    sentence, pushed = answer(spec, WaitOutcome(Ended.TIMEOUT, reason="Timed out.").to_event())
    assert "No answer came within 0:30:00, which counts as a no: the standby is ended." in sentence
    assert pushed == {}


def test_the_end_of_the_standby_ends_the_question(spec: StreamSpec) -> None:
    gone = WaitOutcome(Ended.GONE, "orders-2-1a2b", "orders-2-1a2b has ended: it broke. Nobody holds the stream.")
    sentence, pushed = answer(spec, gone.to_event())
    assert sentence == (
        "While a person was asked: orders-2-1a2b has ended: it broke. Nobody holds the stream. "
        "There is nothing left to decide: the standby is ended. Trigger it again."
    )
    assert pushed == {}


def test_once_the_stream_is_broken_nobody_has_to_be_asked_and_the_upgrade_goes_on(spec: StreamSpec) -> None:
    over = WaitOutcome(Ended.REACHED, "orders-2-1a2b", "orders-1-aaaa.00000001 gives no sign of life.")
    with pytest.raises(AirflowSkipException, match=r"No answer is needed any more: .* gives no sign of life"):
        answer(spec, over.to_event())


def restarting(spec: StreamSpec) -> ApproveUpgradeOperator:
    """The question of an upgrade that has no standby."""
    mine = task(spec, None)
    mine.family, mine.strategy, mine.checked = "", "restart", json.dumps(RELEASE)
    return mine


def test_where_nothing_stands_by_a_person_sees_what_was_checked(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_of(spec.control, *RUNNING)
    sent: dict[str, Any] = {}
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **kw: sent.update(kw))
    mine = restarting(spec)
    mine.rewind = json.dumps({"to": 1764000000.0, "queries": {"enrich": {"orders": {"0": 7}}}})
    context: Any = {"task_instance": SimpleNamespace(id="0197c1de-0000-7000-8000-000000000001")}
    with pytest.raises(WAITS):
        mine.execute(context)
    shown = shown_in(sent)
    assert next(iter(shown)) == "reads_records_again"
    assert (shown["hash"], shown["strategy"].split(":")[0]) == (RELEASE["hash"], "restart")
    assert shown["asked_because"] == ["`upgrade.approval` is on."]


def test_where_nothing_stands_by_and_no_approval_is_needed_nobody_is_asked(spec: StreamSpec) -> None:
    context: Any = {}
    with pytest.raises(AirflowSkipException, match="nothing was rehearsed"):
        restarting(unasked(spec)).execute(context)
