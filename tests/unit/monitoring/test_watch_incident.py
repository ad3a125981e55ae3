"""People are told that the watch fails, and that it works again: each once, whoever else cannot be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.monitoring import delivery
from airflow_stream_provider.monitoring.delivery import tell_of_watch
from airflow_stream_provider.monitoring.incidents import IncidentState
from airflow_stream_provider.monitoring.recipients import takes_alerts
from airflow_stream_provider.spec.stream import StreamSpec

TOLD: list[Any] = []
REFUSED = ["anna"]
NOTHING = IncidentState()


@takes_alerts
def page(alert: Any, who: str) -> None:
    if who in REFUSED:
        raise OSError("https://hooks.example.org/hunter2")
    TOLD.append((who, alert.open, alert.incident))


def spec(name: str, *who: str) -> StreamSpec:
    fields = {"application": "a.py", "version": "1", "cluster": "c", "control": "file:///d"}
    notify = [{"call": f"{__name__}.page", "arguments": {"who": each}} for each in who]
    return StreamSpec.model_validate({**fields, "name": name, "notify": notify})


@pytest.fixture(autouse=True)
def nobody() -> None:
    TOLD.clear()
    REFUSED[:] = ["anna"]


def tell(problem: str, before: IncidentState, *specs: StreamSpec) -> IncidentState:
    return tell_of_watch("streams", problem, before, specs, {})


def test_each_is_told_once_and_who_could_not_be_reached_again(caplog: pytest.LogCaptureFixture) -> None:
    streams = spec("a", "anna", "bob"), spec("b", "bob")
    first = tell("It fails.", NOTHING, *streams)
    assert first.incident is not None
    assert [("bob", True, first.incident.id)] == TOLD
    REFUSED.clear()
    second = tell("It fails.", first, *streams)
    assert [who for who, _, _ in TOLD] == ["bob", "anna"]
    assert tell("", second, *streams) == NOTHING
    assert [(who, open) for who, open, _ in TOLD[2:]] == [("anna", False), ("bob", False)] or [
        (who, open) for who, open, _ in TOLD[2:]
    ] == [("bob", False), ("anna", False)]
    assert "hunter2" not in caplog.text


def test_who_comes_and_who_goes_changes_nothing_for_the_others() -> None:
    first = tell("It fails.", NOTHING, spec("a", "bob", "carl"))
    second = tell("It fails.", first, spec("a", "carl", "dora"))
    assert [who for who, _, _ in TOLD] == ["bob", "carl", "dora"]
    TOLD.clear()
    tell("", second, spec("a", "carl", "dora"))
    assert sorted(who for who, _, _ in TOLD) == ["carl", "dora"]


def test_where_nothing_is_wrong_nobody_is_told() -> None:
    assert tell("", NOTHING, spec("a", "bob")) == NOTHING
    assert TOLD == []


def test_what_goes_wrong_in_telling_is_left_for_the_next_look(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("hunter2")

    monkeypatch.setattr(delivery, "tell", broken)
    assert tell("It fails.", NOTHING, spec("a", "bob")).acknowledged == {}
    assert "RuntimeError" in caplog.text
    assert "hunter2" not in caplog.text
