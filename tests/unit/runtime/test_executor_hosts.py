"""Which hosts a driver knows to have had its executors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from airflow_stream_provider.runtime import driver_process
from airflow_stream_provider.runtime.driver_process import ExecutorHosts


def context(*named: str) -> Any:
    """A SparkContext that names these hosts."""
    infos = [SimpleNamespace(host=lambda name=name: name) for name in named]
    tracker = SimpleNamespace(getExecutorInfos=lambda: infos)
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: tracker)))


def test_a_host_that_has_had_an_executor_is_never_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark drops an executor that it has lost; cut off, that may run on."""
    found: Any = ExecutorHosts()

    def ask(active: Any) -> Any:
        monkeypatch.setattr(SparkContext, "_active_spark_context", active)
        found.ask()
        return found.known

    for none in (None, SimpleNamespace(), SimpleNamespace(_jsc=None)):
        assert ask(none) is None, "Spark did not say"
    for named, hosts in ((("a", "b"), ("a", "b")), (("a",), ("a", "b")), (("[::1]", "a"), ("[::1]", "a", "b"))):
        assert ask(context(*named)) == hosts
    assert ask(SimpleNamespace(_jsc=None)) == ("[::1]", "a", "b")


def test_a_slow_spark_is_asked_for_a_twentieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 100.01, 200.0, 202.0])
    monkeypatch.setattr(driver_process, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    hosts = ExecutorHosts()
    assert (hosts.ask(), hosts.ask()) == (5.0, 40.0)
