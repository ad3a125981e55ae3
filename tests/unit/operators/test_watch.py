"""A look of the watch, without Airflow's database and with a double of `FolderLook`: what it asks, keeps and triggers.

What a look finds at a stream is tested in `monitoring`, the whole on a real Airflow in `tests/integration/airflow`.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout

from airflow_stream_provider.control import FilesRoot, make_root
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.operators import watch
from airflow_stream_provider.operators.watch import MAX_TRIGGERED, KnownRoots, WatchStreamsOperator
from airflow_stream_provider.spec.stream import load_spec
from airflow_stream_provider.spec.watched import note_of
from tests.support.watch_task import Airflow

WATCH = "p.streams__watch"
REVIVE = "p.streams__revive"


def revived(triggers: list[dict[str, Any]]) -> list[str]:
    return sorted(each["conf"]["stream"] for each in triggers)


def test_a_look_reads_the_files_of_now_and_what_was_found_is_in_xcom(airflow: Airflow) -> None:
    assert airflow.look() == []
    assert airflow.files == ["orders.yaml", "payments.yaml"]
    assert airflow.asked == {
        "watch": WATCH,
        "roots": ["file:///d"],
        "left": None,
        "unread": "",
        "everything": False,
    }
    assert airflow.pushed == {"summary": {"looked": 2}}
    airflow.write("late")
    airflow.look()
    assert "late.yaml" in airflow.files


def test_a_control_root_is_known_when_no_file_names_it_any_more(airflow: Airflow) -> None:
    airflow.look()
    airflow.look()
    assert airflow.variables.writes == 1, "it is written when it grows"
    for path in airflow.folder.iterdir():
        path.write_text("[")
    airflow.look()
    assert airflow.asked["roots"] == ["file:///d"]
    assert json.loads(airflow.variables.values[WATCH]) == {"roots": ["file:///d"], "memory": None}


@pytest.mark.parametrize("text", ["7", "[]", "{", ""])
def test_a_variable_that_cannot_be_read_is_kept_and_told(airflow: Airflow, text: str) -> None:
    airflow.variables.values[WATCH] = text
    with pytest.raises(StreamError, match=r"cannot be read.*correct its JSON"):
        airflow.look()
    assert airflow.variables.values[WATCH] == text


def test_an_api_server_that_does_not_answer_makes_the_watch_forget_no_control_root(airflow: Airflow) -> None:
    """Airflow's `Variable.get` returns its default then: the watch noted "none", and looked at no stream any more."""
    airflow.variables.values[WATCH] = kept = json.dumps({"roots": ["file:///gone"], "memory": None})
    airflow.variables.away = True
    with pytest.raises(StreamError, match="cannot be read"):
        airflow.look()
    assert airflow.variables.values[WATCH] == kept
    airflow.variables.away = False
    airflow.look()
    assert airflow.asked["roots"] == ["file:///d", "file:///gone"]


@pytest.mark.parametrize("found", [{"roots": 5}, {"roots": [5, None]}, {"other": 1}])
def test_a_variable_that_somebody_has_spoilt_is_begun_anew(airflow: Airflow, found: Any) -> None:
    airflow.variables.values[WATCH] = json.dumps(found)
    airflow.look()
    assert airflow.asked["roots"] == ["file:///d"]


def test_what_no_control_root_could_keep_is_in_the_variable(airflow: Airflow) -> None:
    airflow.look()
    roots = KnownRoots(WATCH)
    roots.save({"at": 7.0})
    airflow.look()
    assert airflow.asked["left"] == {"at": 7.0}


def test_who_triggers_or_clears_a_look_gets_one_at_every_stream(airflow: Airflow) -> None:
    airflow.look(run_type="manual")
    assert airflow.asked["everything"]
    airflow.look(try_number=2)
    assert airflow.asked["everything"]
    task = WatchStreamsOperator(task_id="look", streams=airflow.folder, retries=3)
    assert task.retries == 0, "the next look is the retry"


def test_nothing_is_looked_at_in_a_backfill(airflow: Airflow) -> None:
    with pytest.raises(AirflowSkipException, match="nothing of another time"):
        airflow.look(run_type="backfill")
    assert (airflow.pushed, airflow.asked) == ({}, {})


@pytest.mark.parametrize("error", [SpecError("There is no more room."), AirflowTaskTimeout("Timeout")])
def test_a_look_that_fails_is_told_and_what_it_knows_is_kept(airflow: Airflow, error: BaseException) -> None:
    airflow.fails = error
    with pytest.raises(type(error)):
        airflow.look()
    assert airflow.told[0].startswith("The watch cannot look at its streams, and would not notice their end.")
    assert airflow.kept == 1


def test_the_text_of_a_foreign_error_is_not_told(airflow: Airflow) -> None:
    airflow.fails = RuntimeError("https://user:hunter2@example.org")
    with pytest.raises(RuntimeError):
        airflow.look()
    assert "RuntimeError; see the task's log." in airflow.told[0]
    assert "hunter2" not in airflow.told[0]


def test_a_folder_that_is_gone_or_hangs_ends_no_look(airflow: Airflow, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow.look()
    airflow.folder.rename(airflow.folder.with_name("gone"))
    airflow.look()
    assert "There is no folder" in airflow.asked["unread"]
    free = threading.Event()
    monkeypatch.setattr(watch, "READ_SECONDS", 0.2)
    monkeypatch.setattr("airflow_stream_provider.spec.folder.read_folder", lambda folder: free.wait())
    airflow.look()
    free.set()
    assert "has not answered" in airflow.asked["unread"]
    assert airflow.asked["roots"] == ["file:///d"]


def test_what_is_to_be_brought_back_is_triggered_once_by_stream(airflow: Airflow) -> None:
    airflow.revive = ("orders", "payments")
    triggers = airflow.look()
    run = f"watch__orders__{60 * airflow.minute}"
    orders = {"trigger_dag_id": REVIVE, "trigger_run_id": run, "conf": {"stream": "orders", "control": "file:///d"}}
    assert orders in triggers
    assert revived(triggers) == ["orders", "payments"]
    airflow.runs["running"] = {run}
    assert revived(airflow.look()) == ["payments"], "its run has ended"


def test_a_run_that_waits_keeps_no_stream_from_what_can_be_done_now(airflow: Airflow) -> None:
    """Found by a review: for 25 minutes a run waited for a cluster, while a standby was up that nobody appointed."""
    airflow.revive, airflow.beside = ("orders", "payments"), frozenset({"orders"})
    first = {each["conf"]["stream"]: each["trigger_run_id"] for each in airflow.look()}
    airflow.runs["running"] = {*first.values()}
    [beside] = airflow.look()
    assert beside["conf"]["stream"] == "orders"
    # One that waits for its turn looks anew when that comes; and there are never more than two.
    airflow.runs["queued"] = {beside["trigger_run_id"]}
    assert airflow.look() == []
    airflow.runs = {"running": {*first.values(), beside["trigger_run_id"]}, "queued": set()}
    assert airflow.look() == []


def test_a_look_triggers_only_so_many_and_the_next_ones_the_others(airflow: Airflow) -> None:
    names = [f"s{number:03}" for number in range(2 * MAX_TRIGGERED)]
    airflow.revive = tuple(names)
    seen: set[str] = set()
    for _ in range(40):
        triggers = airflow.look()
        assert len(triggers) == MAX_TRIGGERED
        # None of them stays active, as if each was skipped at once: all the same the others get their turn.
        seen |= {*revived(triggers)}
        if seen == {*names}:
            return
    raise AssertionError(f"{len(seen)} of {len(names)}")


def test_a_change_is_upgraded_to_unless_an_upgrade_is_under_way(airflow: Airflow) -> None:
    airflow.changed = {"orders": "2b__orders-1"}
    upgrade = {"trigger_dag_id": "p.orders__upgrade", "trigger_run_id": "change__2b__orders-1", "conf": {}}
    assert airflow.look() == [upgrade]
    # The same run again: it is skipped where it is there already, and a failed one is not repeated.
    assert airflow.look() == [upgrade]
    airflow.runs["running"] = {"p.orders__upgrade"}
    assert airflow.look() == []


def test_a_stream_is_found_as_it_was_declared_last_in_the_roots_of_its_watch_alone(
    airflow: Airflow, tmp_path: Path
) -> None:
    urls = [(tmp_path / name).as_uri() for name in ("a", "b", "c")]
    for url in urls:
        make_root(url)
    spec = load_spec(airflow.write("orders", "lag: {max_records: 7}\n"))
    FilesRoot(urls[1]).note("orders", note_of(spec, WATCH))
    FilesRoot(urls[2]).note("orders", note_of(spec, WATCH))
    roots = KnownRoots(WATCH)
    roots.add({*urls[:2]})
    for control in ("", urls[1]):
        found = KnownRoots(WATCH).declared("orders", control)
        assert (found.control, found.lag.max_records) == (urls[1], 7)
    for name, control in (("orders", urls[0]), ("orders", urls[2]), ("payments", "")):
        with pytest.raises(SpecError, match=f"looks after no stream {name}"):
            KnownRoots(WATCH).declared(name, control)
    with pytest.raises(SpecError, match="cannot be a stream's name"):
        KnownRoots(WATCH).declared("../orders", "")
    FilesRoot(urls[1]).note("orders", note_of(spec, "other__watch"))
    with pytest.raises(SpecError, match="looks after no stream"):
        KnownRoots(WATCH).declared("orders", "")
