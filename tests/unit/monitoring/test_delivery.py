"""Alerts reach people through Airflow's notifiers and plain functions, and a failure is noticed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, cast

import pytest
from airflow.sdk import BaseNotifier

from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.monitoring.delivery import deliver
from airflow_stream_provider.monitoring.recipients import ImportedRecipient, named, recipient, takes_alerts
from tests.support.more_time import in_time

HERE = __name__
ALERT = Alert("orders", "down", "orders-down-1", True, 0.0, 60.0, ("Nobody runs it.",))


class Letter(BaseNotifier):
    """Any notifier of Airflow: it knows templates, not alerts."""

    template_fields = ("text",)
    sent: ClassVar[list[str]] = []

    def __init__(self, text: str, broken: bool = False) -> None:
        super().__init__()
        if text == "unlucky":
            raise OSError(f"nobody to be reached with {text}")
        self.text = text
        self.broken = broken

    def notify(self, context: Any) -> None:
        if self.broken:
            raise ConnectionError("https://hooks.example.org/hunter2 refuses")
        self.sent.append(self.text)


@takes_alerts
def call(alert: Any, loudly: bool = False) -> None:
    Letter.sent.append(f"{alert.incident} {'!' if loudly else ''}")


def broken(alert: Any, token: str) -> None:
    raise ConnectionError(f"no line today: https://hooks.example.org/{token}")


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    Letter.sent.clear()


def test_a_notifier_finds_the_alert_in_its_templates_every_time() -> None:
    letters = named([ImportedRecipient(f"{HERE}.Letter", {"text": "{{ alert.subject }}"})])
    assert deliver(ALERT, letters, {}) == letters.keys()
    assert deliver(ALERT, letters, {}) == letters.keys()
    assert Letter.sent == ["orders: Nobody runs it."] * 2


def test_a_function_is_called_with_it_and_its_arguments() -> None:
    assert deliver(ALERT, named([recipient(f"{HERE}.call", {"loudly": True})]), {}) == {"call"}
    assert Letter.sent == ["orders-down-1 !"]


def test_one_that_fails_is_noticed_and_keeps_no_other_from_being_told(caplog: pytest.LogCaptureFixture) -> None:
    gone = ImportedRecipient("my_company.pager.page", {"token": "hunter2"})
    pager = partial(call, loudly=cast("Any", "hunter2"))
    to = named([Letter("x", broken=True), gone, partial(broken, token="hunter2"), pager, call])
    assert list(to) == ["Letter", gone.name, "broken", "call", "call 2"]
    assert deliver(ALERT, to, {}) == {"call", "call 2"}
    assert sorted(Letter.sent) == ["orders-down-1 ", "orders-down-1 !"]
    assert caplog.text.count("The alert orders-down-1 could not be delivered to ") == 3
    assert "hunter2" not in caplog.text
    assert "hooks.example.org" not in caplog.text
    assert "could not be delivered to Letter: ConnectionError." in caplog.text
    assert "names my_company.pager.page, which cannot be imported" in caplog.text
    assert "hunter2" not in repr(gone)


@pytest.fixture
def hanging() -> Iterator[Callable[[Any], None]]:
    """A recipient that does not answer before the test is over."""
    over = threading.Event()

    def hang(alert: Any) -> None:
        over.wait()

    yield hang
    over.set()


def test_one_that_hangs_keeps_neither_the_others_nor_the_task(
    hanging: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    to = {"hanging": hanging, "call": call, "again": hanging}

    def delivered(seconds: float) -> bool:
        Letter.sent.clear()
        caplog.clear()
        return deliver(ALERT, to, {}, seconds=seconds) == {"call"}

    in_time(delivered)
    assert Letter.sent == ["orders-down-1 "]
    assert caplog.text.count("could not be delivered to hanging: TimeoutError.") == 1
