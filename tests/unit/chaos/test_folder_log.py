"""A control log in a folder as it is recorded: real files; `test_recorder` reads them while they are written."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control import ControlLog
from chaos.folder_log import FolderLog
from devstack.control_folder import folder_of
from tests.support.story import RUNNING, write


@pytest.fixture
def seen(log: ControlLog) -> FolderLog:
    return FolderLog(folder_of(log))


def look(seen: FolderLog) -> None:
    for each in seen.looks:
        each()


def test_a_log_that_was_read_whole_has_no_gaps(seen: FolderLog, log: ControlLog) -> None:
    assert seen.gaps() == []
    write(log, *RUNNING[:3])
    look(seen)
    write(log, *RUNNING[3:])  # the stream still runs
    assert seen.gaps() == []


def test_a_hole_in_the_log_and_what_is_behind_it(seen: FolderLog, log: ControlLog) -> None:
    write(log, *RUNNING)
    (folder_of(log) / "log" / f"{3:020d}.json").unlink()
    look(seen)
    assert len(seen.records) == 2
    hole, behind = seen.gaps()
    assert hole == "The control log has no record 3, and goes to 6. Find out who removed it."
    assert behind.startswith("Nobody has read the records 4, 5, 6 of the control log")


def test_records_that_were_removed_or_changed_when_they_had_been_read(seen: FolderLog, log: ControlLog) -> None:
    write(log, *RUNNING)
    look(seen)
    folder = folder_of(log) / "log"
    (folder / f"{6:020d}.json").unlink()
    changed = folder / f"{2:020d}.json"
    data = changed.read_bytes()
    changed.unlink()
    changed.write_bytes(data + b" ")
    assert seen.gaps() == [
        "The control log has no record 6, and goes to 6. Find out who removed it.",
        "The records 2 of the control log were changed. Find out who wrote them.",
    ]
