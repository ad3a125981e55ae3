"""Which events reach the script's own listener."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from airflow_stream_provider.runtime.managed_query import RealRunsOnly, say_idle
from tests.support.real_run import real_run

EVENTS = {
    "onQueryStarted": lambda id: SimpleNamespace(id=id),
    "onQueryProgress": lambda id: SimpleNamespace(progress=SimpleNamespace(id=id)),
    "onQueryIdle": lambda id: SimpleNamespace(id=id),
    "onQueryTerminated": lambda id: SimpleNamespace(id=id, runId=f"run of {id}"),
}


@pytest.mark.parametrize("method", EVENTS)
def test_events_of_rehearsals_are_hidden_and_others_passed_on(method: str) -> None:
    heard: list[Any] = []
    inner: Any = SimpleNamespace(**{method: heard.append})
    hidden = {"rehearsal"}
    listener = RealRunsOnly(inner, hidden, set())
    real = EVENTS[method]("real")
    for event in (EVENTS[method]("rehearsal"), real):
        getattr(listener, method)(event)
    assert heard == [real]
    hidden.add("real")
    getattr(listener, method)(real)
    assert heard == [real], "a rehearsal that is added later is hidden too"


def test_the_end_of_a_run_that_the_runtime_stops_is_hidden_and_that_of_another_run_of_the_query_is_not() -> None:
    heard: list[Any] = []
    inner: Any = SimpleNamespace(onQueryTerminated=heard.append, onQueryProgress=heard.append)
    stopped, later, its_last = UUID(int=1), UUID(int=2), SimpleNamespace(progress=SimpleNamespace(id="a"))
    listener = RealRunsOnly(inner, set(), {str(stopped)})
    own = SimpleNamespace(id="a", runId=later)
    listener.onQueryTerminated(SimpleNamespace(id="a", runId=stopped))
    listener.onQueryTerminated(own)
    listener.onQueryProgress(its_last)
    assert heard == [own, its_last]


@pytest.mark.parametrize("method", EVENTS)
def test_a_listener_of_an_older_spark_need_not_know_every_event(method: str) -> None:
    nothing: Any = SimpleNamespace()
    getattr(RealRunsOnly(nothing, set(), set()), method)(EVENTS[method]("real"))


def test_a_standbys_listeners_hear_that_its_queries_are_idle(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []
    query = real_run()
    query.id = query.runId = "0b5a9a8e-96a5-4dc6-9f8f-3d3e1d6a6f2d"

    def fail(event: Any) -> None:
        raise ValueError("it broke")

    inner: Any = [SimpleNamespace(onQueryIdle=fail), SimpleNamespace(onQueryIdle=heard.append)]
    say_idle([query], [RealRunsOnly(listener, set(), set()) for listener in inner])
    assert [str(event.id) for event in heard] == [query.id]
    assert heard[0].timestamp.endswith("Z")
    assert "it broke" in caplog.text
