"""Alerts reach people through Airflow's notifiers and plain functions, and a failure is noticed."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from airflow.sdk import BaseNotifier

from airflow_stream_provider.model.errors import SpecError
from airflow_stream_provider.model.trouble import Alert
from airflow_stream_provider.notifications.deliver import deliver, recipient

HERE = __name__
ALERT = Alert("orders", "down", "orders-down-1", True, 0.0, 60.0, "Nobody runs it.")


class Letter(BaseNotifier):
    """Any notifier of Airflow: it knows templates, not alerts."""

    template_fields = ("text",)
    sent: ClassVar[list[str]] = []

    def __init__(self, text: str, broken: bool = False) -> None:
        super().__init__()
        self.text = text
        self.broken = broken

    def notify(self, context: Any) -> None:
        if self.broken:
            raise ConnectionError("no post today")
        self.sent.append(self.text)


def call(alert: Any, loudly: bool = False) -> None:
    Letter.sent.append(f"{alert.incident} {'!' if loudly else ''}")


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    Letter.sent.clear()


def test_a_notifier_finds_the_alert_in_its_templates_every_time() -> None:
    letter = recipient(f"{HERE}.Letter", {"text": "{{ alert.subject }}"})
    assert deliver(ALERT, [letter], {})
    assert deliver(ALERT, [letter], {})
    assert Letter.sent == ["orders: Nobody runs it."] * 2


def test_a_function_is_called_with_it_and_its_arguments() -> None:
    assert deliver(ALERT, [recipient(f"{HERE}.call", {"loudly": True})], {})
    assert Letter.sent == ["orders-down-1 !"]


def test_one_that_fails_is_noticed_and_keeps_no_other_from_being_told() -> None:
    assert not deliver(ALERT, [Letter("x", broken=True), call], {})
    assert Letter.sent == ["orders-down-1 "]


@pytest.mark.parametrize(
    ("path", "arguments"),
    [("no_such.thing", {}), (f"{HERE}.nothing", {}), (f"{HERE}.HERE", {}), (f"{HERE}.Letter", {"colour": "red"})],
)
def test_what_cannot_tell_anybody_is_refused(path: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="`notify` names"):
        recipient(path, arguments)
