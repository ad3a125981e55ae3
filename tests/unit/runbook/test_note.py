"""What is written into the note of a run. That Airflow writes it is tested with a real one."""

from __future__ import annotations

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
