"""What is read of a stream for its page, from a real control log."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from airflow_stream_provider.cli.status import status_of
from airflow_stream_provider.control import ControlLog, make_root
from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.monitoring.life import What
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.plugin.looks import EVENTS, RECORDS, Life, answer, look_at_life
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.control_root import new_log
from tests.support.snapshots import UPGRADED
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    RUNNING,
    STARTED,
    STOPPED,
    declared,
    retired,
    write,
)


@pytest.fixture
def control(tmp_path: Path) -> str:
    return f"file://{tmp_path}"


@pytest.fixture
def spec(control: str) -> StreamSpec:
    fields = {"name": "orders", "application": "a.py", "version": "1", "cluster": "c", "control": control}
    return StreamSpec.model_validate(fields)


@pytest.fixture
def log(control: str) -> ControlLog:
    return new_log(control)


def test_a_stream_is_given_back_to_who_stands_by(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    found = answer(spec)
    assert found.word == "Yes."
    assert f"{OLD} takes the stream over from {NEW}" in found.lines[1]
    assert found.lines[-1].startswith("Read again: nothing, as every query stops at a batch boundary.")
    assert list(found.lines) == look_ahead(StreamHook.of(spec), Operation.ROLL_BACK).lines
    assert log.refresh().seq == len(UPGRADED)


def test_what_cannot_be_rolled_back_is_refused_in_the_same_words(spec: StreamSpec, log: ControlLog) -> None:
    for records, word in ((RUNNING, "No."), (STOPPED[len(RUNNING) :], "No.")):
        write(log, *records)
        found = answer(spec)
        assert found.word == word
        assert found.lines[1].startswith("Refused: ")


def test_a_stored_release_that_is_gone_is_no_way_back(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED, retired(OLD_DEPLOYMENT))
    found = answer(spec)
    assert found.word == "No."
    assert "Upgrade to that version, with its files" in found.lines[1]


def test_who_stands_by_and_what_has_happened(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *PREPARED)
    log.beat(OLD, Heartbeat(counter=1, phase="running", at=1.0, ui_url="http://driver:4040"))
    found = look_at_life(spec)
    assert [(each.id, each.says) for each in found.others] == [(NEW, "stands by")]
    assert [each.what for each in found.events][:2] == [What.STOOD_BY, What.DEPLOYED]
    assert found.ui == "http://driver:4040"


@pytest.mark.parametrize("address", ["javascript:alert(1)", 'http://x" onclick="y', "file:///etc/passwd"])
def test_what_is_no_web_address_is_no_link(spec: StreamSpec, log: ControlLog, address: str) -> None:
    write(log, *RUNNING)
    log.beat(OLD, Heartbeat(counter=1, phase="running", at=1.0, ui_url=address))
    assert look_at_life(spec).ui == ""


def test_one_that_has_not_announced_itself_says_what_it_does(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *RUNNING, declared(NEW_DEPLOYMENT))
    (other,) = look_at_life(spec).others
    assert (other.id, other.says) == (NEW_DEPLOYMENT, "has been asked for, and has not reported yet")
    log.beat(NEW, Heartbeat(counter=1, phase="rehearsing", at=time.time(), message="waits for the checkpoint"))
    (other,) = look_at_life(spec).others
    assert re.fullmatch(r"rehearsing, last sign of life \d+ s ago: waits for the checkpoint", other.says)


def test_only_the_last_events_are_shown(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *STARTED, *(declared(f"orders-9-{number:04}") for number in range(EVENTS)))
    events = look_at_life(spec).events
    assert len(events) == EVENTS
    assert [each.seq for each in events] == sorted((each.seq for each in events), reverse=True)


def test_for_the_last_events_only_the_last_records_are_read(
    spec: StreamSpec, log: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, *RUNNING, *(declared(f"orders-9-{number:04}") for number in range(300)))
    log.save()
    numbers: list[int] = []
    read = FilesStore.read
    monkeypatch.setattr(FilesStore, "read", lambda self, seq: numbers.append(seq) or read(self, seq))
    assert len(look_at_life(spec).events) == EVENTS
    assert len(numbers) < RECORDS + 20


def test_nothing_is_written(spec: StreamSpec, log: ControlLog, tmp_path: Path) -> None:
    """So that the API server may mount the control folder for reading only."""
    write(log, *UPGRADED, retired(OLD_DEPLOYMENT))
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    for look in (answer, look_at_life, status_of):
        look(spec)
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_stream_that_was_never_deployed_has_no_life(spec: StreamSpec, control: str) -> None:
    make_root(control)
    assert look_at_life(spec) == Life()
    assert answer(spec).word == "No."


def test_a_control_root_that_is_not_mounted_is_an_error_that_says_so(spec: StreamSpec) -> None:
    for look in (answer, look_at_life):
        with pytest.raises(ControlUnavailable):
            look(spec)
