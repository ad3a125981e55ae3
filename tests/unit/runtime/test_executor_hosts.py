"""Which hosts a driver knows to have had its executors, and in which thread it asks."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from airflow_stream_provider.runtime import driver_process
from airflow_stream_provider.runtime.driver_process import ExecutorHosts
from devstack.drivers import wait_for


def context(*named: str, calls: list[threading.Thread] | None = None) -> Any:
    """A SparkContext that names these hosts."""

    def host(name: str) -> str:
        if calls is not None:
            calls.append(threading.current_thread())
        return name

    infos = [SimpleNamespace(host=lambda name=name: host(name)) for name in named]
    tracker = SimpleNamespace(getExecutorInfos=lambda: infos)
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: tracker)))


def test_a_host_that_has_had_an_executor_is_never_left_out() -> None:
    """Spark drops an executor that it has lost; cut off, that may run on."""
    found: Any = ExecutorHosts()
    for none in (None, SimpleNamespace(), SimpleNamespace(_jsc=None)):
        found.ask(none)
        assert found.known is None, "Spark did not say"
    for named, hosts in ((("a", "b"), ("a", "b")), (("a",), ("a", "b")), (("[::1]", "a"), ("[::1]", "a", "b"))):
        found.ask(context(*named))
        assert found.known == hosts
    found.ask(SimpleNamespace(_jsc=None))
    assert found.known == ("[::1]", "a", "b")


def test_the_thread_that_renews_the_lease_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: it made two calls for each executor every five seconds, also while a hand-over waited."""
    monkeypatch.setattr(driver_process, "SECONDS", 0.01)
    calls: list[threading.Thread] = []
    monkeypatch.setattr(SparkContext, "_active_spark_context", context("a", calls=calls))
    found = ExecutorHosts()
    for _ in range(3):
        found.follow()
    wait_for("two answers", lambda: len(calls) >= 2)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    assert found.known == ("a",)
    assert len(set(calls)) == 1
    assert calls[0] is not threading.current_thread()
