"""What is read of a stream for its page, from a real control log."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

from airflow_stream_provider.control import ControlLog, bounded, make_root
from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.files_root import FilesRoot, SampleFile
from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.plugin.looks import NOTHING, RECORDS, OpenStream
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
def stream(spec: StreamSpec) -> OpenStream:
    return OpenStream(spec)


@pytest.fixture
def log(control: str) -> ControlLog:
    return new_log(control)


def test_a_stream_is_given_back_to_who_stands_by(stream: OpenStream, spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    found = stream.answer()
    assert found.word == "Yes."
    assert f"{OLD} takes the stream over from {NEW}" in found.lines[1]
    assert found.lines[-1].startswith("Read again: nothing, as every query stops at a batch boundary.")
    assert list(found.lines) == look_ahead(StreamHook.of(spec), Operation.ROLL_BACK).lines
    assert log.refresh().seq == len(UPGRADED)


def test_what_cannot_be_rolled_back_is_refused_in_the_same_words(stream: OpenStream, log: ControlLog) -> None:
    for records, word in ((RUNNING, "No."), (STOPPED[len(RUNNING) :], "No.")):
        write(log, *records)
        found = stream.answer()
        assert found.word == word
        assert found.lines[1].startswith("Refused: ")


def test_a_stored_release_that_is_gone_is_no_way_back(stream: OpenStream, log: ControlLog) -> None:
    write(log, *UPGRADED, retired(OLD_DEPLOYMENT))
    found = stream.answer()
    assert found.word == "No."
    assert "Upgrade to that version, with its files" in found.lines[1]


def test_who_is_there_and_what_has_happened(stream: OpenStream, log: ControlLog) -> None:
    write(log, *PREPARED)
    log.beat(OLD, Heartbeat(counter=1, phase="running", at=1.0, ui_url="http://driver:4040"))
    found = stream.details()
    assert [(each["id"], each["role"], each["says"], each["ui"]) for each in found["drivers"]] == [
        (OLD, "holder", "running", "http://driver:4040"),
        (NEW, "standby", "no sign of life is known", ""),
    ]
    assert [each["what"] for each in found["events"]][:2] == ["stood_by", "deployed"]
    assert [each["seq"] for each in found["events"]] == sorted((each["seq"] for each in found["events"]), reverse=True)


@pytest.mark.parametrize("address", ["javascript:alert(1)", 'http://x" onclick="y', "file:///etc/passwd"])
def test_what_is_no_web_address_is_no_link(stream: OpenStream, log: ControlLog, address: str) -> None:
    write(log, *RUNNING)
    log.beat(OLD, Heartbeat(counter=1, phase="running", at=1.0, ui_url=address))
    assert [each["ui"] for each in stream.details()["drivers"]] == [""]


def test_one_that_has_not_announced_itself_says_what_it_does(stream: OpenStream, log: ControlLog) -> None:
    write(log, *RUNNING, declared(NEW_DEPLOYMENT))
    other = stream.details()["drivers"][1]
    assert (other["id"], other["says"]) == (NEW_DEPLOYMENT, "has been asked for, and has not reported yet")
    log.beat(NEW, Heartbeat(counter=1, phase="rehearsing", at=time.time(), message="waits for the checkpoint"))
    other = stream.details()["drivers"][1]
    assert (other["id"], other["says"]) == (NEW, "rehearsing: waits for the checkpoint")


def test_row_details_and_gaps_read_one_log_and_of_a_long_one_its_last_records_once(
    stream: OpenStream, log: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each had a log of its own, and read the same records."""
    write(log, *RUNNING, *(declared(f"orders-9-{number:04}") for number in range(300)))
    log.save()
    numbers: list[int] = []
    read = FilesStore.read
    monkeypatch.setattr(FilesStore, "read", lambda self, seq: numbers.append(seq) or read(self, seq))
    stream.row()
    stream.details()
    stream.gaps()
    # What lies behind the last record is looked for again.
    assert len(numbers) < RECORDS + 30
    assert stream.row()["holder"] == OLD


def test_a_stream_that_could_not_be_read_is_opened_anew(stream: OpenStream, log: ControlLog, tmp_path: Path) -> None:
    write(log, *RUNNING)
    assert stream.row()["holder"] == OLD
    away = tmp_path.rename(f"{tmp_path}-away")
    row = stream.row()
    assert (row["words"], row["holder"], row["upgrade"]["what"]) == ("unknown", "", "started")
    assert str(tmp_path) in row["problem"]
    with pytest.raises(ControlUnavailable):
        stream.details()
    away.rename(tmp_path)
    assert (stream.row()["holder"], stream.row()["problem"]) == (OLD, "")
    assert stream.details()["drivers"][0]["id"] == OLD


def test_one_thread_at_a_time_reads_a_stream_and_others_are_read_meanwhile(
    stream: OpenStream, control: str, log: ControlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, *RUNNING)
    write(new_log(control, "parts"), *RUNNING)
    begun, ended, samples = SimpleQueue[str](), threading.Event(), FilesRoot.samples

    def read(self: FilesRoot, name: str) -> SampleFile:
        begun.put(name)
        if name == "orders":
            ended.wait(600)
        return samples(self, name)

    monkeypatch.setattr(FilesRoot, "samples", read)
    try:
        reads = [bounded.start(each, "orders") for each in (stream.row, lambda: stream.series(0.0))]
        assert begun.get(timeout=60) == "orders"
        other = OpenStream(stream.spec.model_copy(update={"name": "parts"}))
        assert other.row()["holder"] == OLD
        assert begun.get(timeout=60) == "parts"
        with pytest.raises(Empty):
            begun.get(timeout=1.0)
    finally:
        ended.set()
    assert [bool(each.result(60)) for each in reads] == [True, True]


def test_nothing_is_written(stream: OpenStream, log: ControlLog, tmp_path: Path) -> None:
    """So that the API server may mount the control folder for reading only."""
    write(log, *UPGRADED, retired(OLD_DEPLOYMENT))
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    for look in (stream.answer, stream.row, stream.details, stream.gaps):
        look()
    stream.series(0.0)
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_stream_that_was_never_deployed_has_no_life(stream: OpenStream, control: str) -> None:
    make_root(control)
    assert stream.details() == NOTHING
    assert stream.series(0.0)["bands"] == []
    assert "Deploy the stream first" in stream.row()["problem"]
    assert stream.answer().word == "No."


def test_a_control_root_that_is_not_mounted_is_an_error_that_says_so(stream: OpenStream) -> None:
    for look in (stream.answer, stream.details, stream.gaps):
        with pytest.raises(ControlUnavailable):
            look()
