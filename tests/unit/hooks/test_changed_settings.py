"""Before an upgrade, only a critical finding that the release brings in refuses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.audit import Severity, report
from airflow_stream_provider.audit.spark.checks import CHECKS
from airflow_stream_provider.hooks import preflight
from airflow_stream_provider.hooks.preflight import Finding
from airflow_stream_provider.lifecycle.errors import SpecError
from tests.support.spark_audited import facts

SPECULATION = {"spark.speculation": "true"}


def findings(
    monkeypatch: pytest.MonkeyPatch, running: Mapping[str, str], release: Mapping[str, str], former: Mapping[str, str]
) -> list[Finding]:
    """What is found of a release, beside a driver with the settings that run and the former release."""
    monkeypatch.setattr(preflight, "spark_facts", lambda *_: facts(conf=running))
    deployment = SimpleNamespace(release=SimpleNamespace(conf=former))
    holder = SimpleNamespace(deployment="orders-1")
    state = SimpleNamespace(last_driver=holder, last_holder="x", deployments={"orders-1": deployment})
    snapshot: Any = SimpleNamespace(state=state)
    hook: Any = None
    wanted: Any = SimpleNamespace(conf=release)
    return list(preflight._settings(hook, wanted, snapshot))


def test_what_a_release_brings_in_is_told_and_does_not_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = findings(monkeypatch, {}, SPECULATION, {})
    assert found.text.startswith(
        "Audit: the release brings in HIGH speculation, query orders: spark.speculation is true"
    )
    assert not found.refuses


def test_a_critical_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    worse = [replace(each, severity=Severity.CRITICAL) if each.name == "speculation" else each for each in CHECKS]
    monkeypatch.setattr(report, "SPARK_CHECKS", worse)
    assert [each.refuses for each in findings(monkeypatch, {}, SPECULATION, {})] == [True]
    assert findings(monkeypatch, SPECULATION, SPECULATION, SPECULATION) == []


def test_what_runs_already_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(monkeypatch, SPECULATION, SPECULATION, SPECULATION) == []


def test_what_the_cluster_sets_stays_and_what_the_former_release_set_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(monkeypatch, SPECULATION, {}, {}) == []
    option = {"spark.driver.extraJavaOptions": "-XX:+ExitOnOutOfMemoryError"}
    assert [each.text.split(",")[0] for each in findings(monkeypatch, option, {}, option)] == [
        "Audit: the release brings in HIGH driver-exits-on-oom"
    ]


def test_nothing_is_told_beside_an_older_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> Any:
        raise SpecError("No driver of orders has said with which settings it runs.", next_step="-")

    monkeypatch.setattr(preflight, "spark_facts", unknown)
    nothing: Any = SimpleNamespace(state=SimpleNamespace(last_driver=None, last_holder=None))
    assert list(preflight._settings(nothing, nothing, nothing)) == []
