"""How a question ends that nobody has said yes to: alike for all of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.runbook.by_hand import ConfirmOperator


def question() -> ConfirmOperator:
    return ConfirmOperator(task_id="confirm", ask="True", parts='["stop"]', subject="stop?", body="It runs.")


def ends(event: dict[str, Any], pushed: dict[str, str] | None = None) -> str:
    kept = {} if pushed is None else pushed
    context: Any = {"ti": SimpleNamespace(xcom_push=lambda key, value: kept.update({key: value}))}
    with pytest.raises(AirflowFailException) as found:
        question().execute_complete(context, event)
    return str(found.value)


@pytest.mark.parametrize("who", ["anna", ""])
def test_a_no(who: str) -> None:
    event: dict[str, Any] = {"chosen_options": ["Reject"], "responded_by_user": {"id": "1", "name": who}}
    pushed: dict[str, str] = {}
    assert ends(event, pushed) == f"{who or 'somebody'} said no: nothing was done."
    assert pushed == {"rejected_by": who or "somebody"}


@pytest.mark.parametrize(
    "event",
    [
        pytest.param({"error": "x", "error_type": "timeout"}, id="in Airflow's own trigger"),
        pytest.param(WaitOutcome(Ended.TIMEOUT, reason="Timed out.").to_event(), id="in ours"),
    ],
)
def test_no_answer_in_time_is_a_no(event: dict[str, Any]) -> None:
    said = "No answer came within 1:00:00, which counts as a no: nothing was done. Trigger it again."
    assert ends(event) == said


def test_an_answer_that_makes_no_sense_any_more() -> None:
    gone = WaitOutcome(Ended.GONE, "orders-2-1a2b", "orders-2-1a2b has ended: it broke.")
    assert ends(gone.to_event()) == (
        "While a person was asked: orders-2-1a2b has ended: it broke. There is nothing left to decide: nothing was "
        "done. Trigger it again."
    )


def test_an_answer_that_cannot_be_used() -> None:
    said = ends({"error": "no such option", "error_type": "validation"})
    assert said == "The answer cannot be used: no such option. Without a yes nothing was done."
