"""Who is told of an outcome, what of it, and that nobody who is not reached does harm."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.monitoring.delivery import tell_outcome
from tests.support.tasks import spec_in


def test_everybody_is_told_and_who_was_not_reached_is_returned(tmp_path: Path) -> None:
    told: list[Alert] = []

    def broken(alert: Alert) -> None:
        raise ConnectionError("https://hooks.example.org/secret")

    spec = spec_in(tmp_path)
    missed = tell_outcome(
        spec, "r1", "It went well.", {}, to_act=False, to=[broken, told.append], links={"Answer": "http://a"}
    )
    assert len(missed) == 1
    assert "broken" in missed[0]
    [alert] = told
    assert (alert.kind, alert.incident, alert.open) == ("upgrade", "orders-upgrade-r1", False)
    assert alert.subject == "orders: It went well."
    assert "Answer: http://a" in alert.text
    assert "Look:" not in alert.text


def test_what_needs_somebody_says_where_to_look_and_no_secret_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(alert: Alert) -> None:
        raise ConnectionError("https://hooks.example.org/secret")

    with caplog.at_level(logging.INFO):
        assert tell_outcome(spec_in(tmp_path), "r1", "It waits.", {}, to_act=True, to=[broken])
    assert "Look: airflow streams history orders" in caplog.text
    assert "hooks.example.org" not in caplog.text
