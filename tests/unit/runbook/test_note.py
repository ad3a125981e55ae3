"""What is written into the note of a run. That Airflow writes it is tested with a real one."""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.runbook import note
from airflow_stream_provider.runbook.note import MAX_NOTE, with_line


def test_the_first_line_is_the_note() -> None:
    assert with_line(None, "It went\nwell.") == "Outcome: It went well."


def test_what_a_person_wrote_stays_and_what_an_earlier_end_wrote_goes() -> None:
    first = with_line("for the audit", "It failed.")
    assert first == "for the audit\nOutcome: It failed."
    assert with_line(first, "It went well.") == "for the audit\nOutcome: It went well."


def test_where_nothing_is_known_of_this_end_the_earlier_one_goes() -> None:
    assert with_line("for the audit\nOutcome: It went well.", "") == "for the audit"
    assert with_line("Outcome: It went well.", "") == ""


@pytest.mark.parametrize(("state", "line"), [("success", "It went well."), ("failed", "It went well."), (None, "")])
def test_a_line_counts_only_when_the_task_has_run(state: str | None, line: str) -> None:
    found = SimpleNamespace(first=lambda: SimpleNamespace(value=json.dumps("It went well.")))
    session: Any = SimpleNamespace(no_autoflush=contextlib.nullcontext(), scalars=lambda wanted: found)
    run: Any = SimpleNamespace(
        dag_id="orders__operate",
        run_id="r",
        get_task_instance=lambda task, session: SimpleNamespace(state=state or "upstream_failed"),
    )
    assert note._line(run, "tell", session) == line


@pytest.mark.parametrize(("theirs", "line"), [("x" * 1000, "short"), ("", "y" * 2000), ("x" * 600, "y" * 600)])
def test_it_is_never_longer_than_airflow_stores(theirs: str, line: str) -> None:
    found = with_line(theirs, line)
    assert len(found) <= MAX_NOTE
    assert "Outcome: " in found


def test_of_other_dags_nothing_is_read_and_no_fault_reaches_the_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    other: Any = SimpleNamespace(dag_id="mine", run_id="r")
    note.on_dag_run_success(other, "")
    assert not caplog.records
    broken: Any = SimpleNamespace(dag_id="orders__upgrade", run_id="r")  # no object of a database
    note.on_dag_run_failed(broken, "")
    assert "The note of r could not be written" in caplog.text
