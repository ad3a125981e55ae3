"""What people are told of the looks themselves: those that fail, hang, or do not get round to their streams."""

from __future__ import annotations

import threading

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.operators import watch_look
from tests.support.watch_task import TOLD, Airflow


def test_a_look_that_fails_is_told_to_everybody_once_and_once_that_it_works_again(airflow: Airflow) -> None:
    airflow.look()
    airflow.fails = SpecError("There is no more room.")
    for _ in range(3):
        with pytest.raises(SpecError, match="There is no more room"):
            airflow.look()
    assert sorted(who for who, _ in TOLD) == ["orders", "payments"]
    opened = TOLD[0][1]
    assert (opened.kind, opened.open, opened.stream) == ("watch", True, "streams")
    assert "There is no more room" in opened.text
    airflow.fails = None
    airflow.look()
    airflow.look()
    assert [(who, alert.open) for who, alert in sorted(TOLD[2:], key=lambda each: each[0])] == [
        ("orders", False),
        ("payments", False),
    ]
    assert {alert.incident for _, alert in TOLD} == {opened.incident}
    assert airflow.memories[-2:] == [{"looks": 1}, {"looks": 2}], "a look that failed has forgotten nothing"


def test_a_look_that_does_not_get_round_to_its_streams_is_told_once(airflow: Airflow) -> None:
    airflow.look()
    airflow.problem = "There is no time."
    for _ in range(3):
        airflow.look()
    assert sorted(who for who, _ in TOLD) == ["orders", "payments"]
    assert "There is no time." in TOLD[0][1].text


@pytest.mark.parametrize("empty", [True, False])
def test_streams_are_watched_on_when_their_folder_is_gone(airflow: Airflow, empty: bool) -> None:
    """As when its mount is away, or what fills it has emptied it."""
    airflow.look()
    full = airflow.folder.rename(airflow.folder.with_name("full"))
    if empty:
        airflow.folder.mkdir()
    airflow.revive = ("orders",)
    for _ in range(3):
        assert airflow.look() == [], "no DAG can bring it back"
        assert {each.spec.name for each in airflow.asked if "is gone" in each.problem} == {"orders", "payments"}
        assert "declared" not in airflow.pushed
    if empty:
        airflow.folder.rmdir()
    full.rename(airflow.folder)
    assert [each["trigger_dag_id"] for each in airflow.look()] == ["p.orders__revive"]
    assert not any(each.problem for each in airflow.asked)


def test_a_folder_that_is_gone_and_of_which_nothing_is_known_fails_the_look(airflow: Airflow) -> None:
    airflow.folder.rename(airflow.folder.with_name("gone"))
    with pytest.raises(SpecError, match="There is no folder"):
        airflow.look()


def test_a_new_folder_may_be_empty(airflow: Airflow) -> None:
    for name in ("orders", "payments"):
        (airflow.folder / f"{name}.yaml").unlink()
    assert airflow.look() == []


def test_a_look_that_is_cut_off_is_told_and_forgets_nothing(airflow: Airflow) -> None:
    airflow.look()
    airflow.fails = AirflowTaskTimeout("Timeout")
    with pytest.raises(AirflowTaskTimeout):
        airflow.look()
    assert airflow.pushed["memory"]["streams"] == {"looks": 1}
    assert sorted(who for who, _ in TOLD) == ["orders", "payments"]
    assert "AirflowTaskTimeout" in TOLD[0][1].text


def test_a_folder_that_hangs_is_told(airflow: Airflow, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow.look()
    free = threading.Event()
    monkeypatch.setattr(watch_look, "READ_SECONDS", 0.2)
    monkeypatch.setattr(watch_look, "read_folder", lambda folder: free.wait())
    with pytest.raises(SpecError, match="could not be read within"):
        airflow.look()
    free.set()
    assert sorted(who for who, _ in TOLD) == ["orders", "payments"]


def test_the_text_of_a_foreign_error_is_not_sent(airflow: Airflow) -> None:
    airflow.fails = RuntimeError("https://user:hunter2@example.org")
    with pytest.raises(RuntimeError):
        airflow.look()
    assert "RuntimeError; see the task's log." in TOLD[0][1].text
    assert not any("hunter2" in alert.text for _, alert in TOLD)
