"""A look of the watch, without Airflow's database and with a double of `look_at_all`: what it asks, keeps and returns.

What a look finds at a stream is tested in `monitoring`, the whole on a real Airflow in `tests/integration/airflow`.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_stream_provider.lag.limits import Streaks
from airflow_stream_provider.monitoring.incidents import Incident, IncidentState
from airflow_stream_provider.operators.watch import WatchStreamsOperator
from airflow_stream_provider.operators.watch_look import LookMemory
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from airflow_stream_provider.spec.watched import Watched
from tests.support.watch_task import Airflow


def test_a_look_goes_on_from_the_one_before(airflow: Airflow) -> None:
    assert airflow.look() == []
    assert airflow.names == {"orders", "payments"}
    assert airflow.pushed["summary"] == {"looked": 2}
    airflow.look()
    assert airflow.memories == [{}, {"looks": 1}]


def test_the_streams_are_read_when_the_task_runs(airflow: Airflow) -> None:
    airflow.look()
    airflow.write("late")
    (airflow.folder / "orders.yaml").unlink()
    airflow.look()
    assert airflow.names == {"late", "orders", "payments"}


def test_a_stream_is_looked_at_when_it_is_due(airflow: Airflow) -> None:
    airflow.write("seldom", "watch: {schedule: 5m}\n")
    airflow.write("never", "watch: {schedule: null}\n")
    airflow.look()
    looks = []
    for _ in range(10):
        airflow.look()
        looks.append(airflow.names)
        assert airflow.names >= {"orders", "payments"}
        assert "never" not in airflow.names
        # Who is to be told of what the folder's streams need.
        assert airflow.names | {*airflow.others} == {"orders", "payments", "seldom"}
    assert sum("seldom" in names for names in looks) == 2


def test_who_triggers_a_look_gets_one_at_every_stream_and_moves_no_other(airflow: Airflow) -> None:
    airflow.write("seldom", "watch: {schedule: 1h}\n")
    airflow.look()
    at = airflow.pushed["memory"]["at"]
    airflow.look(run_type="manual")
    assert "seldom" in airflow.names
    assert airflow.pushed["memory"]["at"] == at


def test_streams_that_are_given_are_all_looked_at(airflow: Airflow) -> None:
    spec = load_spec(airflow.write("never", "watch: {schedule: null}\n"))
    airflow.look(streams=[spec])
    assert airflow.asked == [Watched(spec)]


def test_a_look_leaves_what_it_would_find_to_a_later_one(airflow: Airflow) -> None:
    airflow.look()
    airflow.waiting = 1
    with pytest.raises(AirflowSkipException, match="Another look waits"):
        airflow.look()
    assert airflow.pushed == {"memory": {**airflow.pushed["memory"], "skipped": True}}


def test_no_two_looks_in_a_row_are_left_to_later_ones(airflow: Airflow) -> None:
    """Where a task waits longer for its slot than a minute, another look always waits."""
    airflow.waiting = 3
    looked = 0
    for _ in range(8):
        with contextlib.suppress(AirflowSkipException):
            airflow.look()
            looked += 1
    assert looked == 4
    assert airflow.memories[-1] == {"looks": 3}, "what a look has left survives one that is skipped"
    # Nothing tells the next one that this one was skipped.
    airflow.look(run_type="manual", dated=False)
    airflow.look(run_type="manual", dated=False)


def test_nothing_is_looked_at_in_a_backfill(airflow: Airflow) -> None:
    with pytest.raises(AirflowSkipException, match="nothing of another time"):
        airflow.look(run_type="backfill")
    assert airflow.pushed == {}


def test_a_cleared_look_does_nothing(airflow: Airflow) -> None:
    with pytest.raises(AirflowSkipException, match="was cleared"):
        airflow.look(try_number=2)
    task = WatchStreamsOperator(task_id="look", streams=airflow.folder, retries=3)
    assert task.retries == 0, "a retry would be taken for a cleared look"


def test_a_look_without_a_logical_date_leaves_nothing_that_airflow_could_not_order(airflow: Airflow) -> None:
    airflow.look(run_type="manual", dated=False)
    assert set(airflow.pushed) == {"summary"}


def test_the_declarations_are_kept_when_they_change_and_once_an_hour(airflow: Airflow) -> None:
    airflow.look()
    airflow.look()
    assert set(airflow.pushed) == {"memory", "summary"}
    assert len(json.dumps(airflow.pushed["memory"])) < 500
    airflow.minute += 60
    airflow.look()
    assert "declared" in airflow.pushed


def test_a_memory_comes_back_as_it_was_left() -> None:
    told = IncidentState(Streaks(bad=4.0), Incident("streams-watch-4", 4.0))
    memory = LookMemory(7.0, {"a": [1]}, told, told, 3, True, True, 6.0, "orders", {"a": "1a__orders-1"})
    assert LookMemory.of(json.loads(json.dumps(memory.to_json()))) == memory
    # What another version has left besides is ignored.
    assert LookMemory.of({"at": 7.0, "incident": {}, "later": 1}) == LookMemory(7.0)


@pytest.mark.parametrize("left", [{"of": "another version"}, "text", {"at": "noon"}, {"streams": 7}, [], None])
def test_what_another_version_left_is_begun_anew(airflow: Airflow, left: Any) -> None:
    airflow.xcom = {"memory": left, "declared": left}
    (airflow.folder / "payments.yaml").write_text("[")
    airflow.look()
    assert airflow.memories == [{}]
    assert airflow.names == {"orders"}


def test_a_stream_is_one_however_often_it_is_given(airflow: Airflow) -> None:
    spec: StreamSpec = load_spec(airflow.write("orders"))
    airflow.look(streams=[spec, spec])
    assert airflow.asked == [Watched(spec)]
