"""One look at all streams of a folder: what befalls one of them, or what all need, and who is told how often."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control.root import MARKER
from airflow_stream_provider.hooks import connections
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.monitoring import folder_reading, kafka_look, root_reads, telling
from airflow_stream_provider.monitoring.folder_look import look_at_all
from airflow_stream_provider.monitoring.folder_memory import FolderMemory
from airflow_stream_provider.monitoring.recipients import recipients_of
from airflow_stream_provider.monitoring.sample_file import NAME
from airflow_stream_provider.monitoring.samples import read
from devstack.many_streams import StoredStream
from tests.support.story import failed, released, requested, write
from tests.support.watched_folder import HERE, OVER, RECEIVED, Folder


@pytest.fixture(autouse=True)
def _connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Another machine's processes are none of this test's.
    monkeypatch.setattr("airflow_stream_provider.clusters.processes.marked", lambda: iter(()))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    OVER.clear()
    yield
    OVER.set()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, 4, kafka="")


def home(folder: Folder, number: int) -> Path:
    stream = folder.streams[number]
    return stream.folder / "control" / stream.name


def test_every_stream_gets_a_sample_and_nobody_is_told_of_what_is_well(folder: Folder) -> None:
    for after in (0.0, 60.0):
        found = folder.look(after)
        assert (found.summary["looked"], found.summary["unanswered"], found.revive) == (4, {}, ())
    for number in range(4):
        assert [round(each.at - folder.began) for each in read(folder.streams[number].log.store)] == [0, 60]
        assert (folder.sample(number).phase, folder.sample(number).version) == ("running", "1.1")
    assert folder.told() == []
    assert len(json.dumps(found.memory)) < 100


def test_a_stream_whose_driver_is_silent_is_told_of_and_brought_back(folder: Folder) -> None:
    folder.look(0.0)
    folder.dead = {"s0001"}
    assert folder.look(60.0).revive == ("s0001",)
    found = folder.look(125.0)
    assert (found.revive, folder.told()) == (("s0001",), [("s0001", "down", True)])
    folder.dead = set()
    assert folder.look(180.0).revive == ()
    assert folder.told()[1:] == [("s0001", "down", False)]
    assert len({each.incident for each in RECEIVED[""]}) == 1


def test_a_stream_that_was_stopped_or_never_deployed_is_not_brought_back(folder: Folder, tmp_path: Path) -> None:
    log, holder = folder.streams[0].log, folder.streams[0].holder
    write(log, requested("stop", None, expires=9e9), released(holder, "stop", None))
    folder.streams.append(StoredStream(tmp_path, "s9999", ""))
    folder.dead = {"s0000", "s9999"}
    for after in (0.0, 60.0, 300.0):
        found = folder.look(after)
        assert found.revive == ()
    assert (found.summary["never_deployed"], found.summary["looked"], folder.told()) == (["s9999"], 4, [])


def test_a_folder_that_has_gone_is_an_error_and_no_stream_that_was_never_deployed(folder: Folder) -> None:
    folder.look(0.0)
    shutil.move(home(folder, 2), folder.streams[2].folder / "aside")
    found = folder.look(60.0)
    assert list(found.summary["unanswered"]) == ["s0002"]
    assert "an earlier look of the watch has seen" in found.summary["unanswered"]["s0002"]
    # Also for a watch that remembers nothing.
    folder.memory = {}
    folder.look(120.0)
    folder.look(180.0)
    assert folder.told() == [("s0002", "watch", True)]
    shutil.move(folder.streams[2].folder / "aside", home(folder, 2))
    folder.look(240.0)
    assert folder.told()[1:] == [("s0002", "watch", False)]


def test_a_stream_that_cannot_be_read_spoils_no_other_and_is_told_of_at_the_second_look(folder: Folder) -> None:
    folder.look(0.0)
    (home(folder, 3) / "log" / f"{3:020d}.json").unlink()
    found = folder.look(60.0)
    assert list(found.summary["unanswered"]) == ["s0003"]
    assert (found.summary["looked"], folder.told()) == (3, [])
    folder.look(120.0)
    assert folder.told() == [("s0003", "watch", True)]


def test_a_broken_yaml_is_watched_all_the_same_and_told_of(folder: Folder) -> None:
    folder.problems = {"s0000": "orders.yaml, line 3: version is missing."}
    for after in (0.0, 60.0, 120.0):
        folder.look(after)
    assert folder.sample(0).phase == "running"
    assert folder.told() == [("s0000", "watch", True)]
    assert "line 3: version is missing" in RECEIVED[""][0].text
    folder.problems = {}
    folder.look(180.0)
    assert folder.told()[1:] == [("s0000", "watch", False)]


def test_a_control_root_that_is_away_is_one_incident_and_tells_everybody_once(folder: Folder) -> None:
    folder.look(0.0)
    folder.notify.append({"call": f"{HERE}.receive", "arguments": {"name": "pager"}})
    marker = home(folder, 0).parent / MARKER
    marker.rename(marker.with_name("hidden"))
    for after in (60.0, 115.0, 180.0):
        found = folder.look(after)
    assert (found.summary["looked"], len(found.summary["unanswered"])) == (0, 4)
    name = f"control root {folder.streams[0].control}"
    assert folder.told() == folder.told("pager") == [(name, "control", True)]
    assert "4 streams (s0000, s0001, s0002, s0003)" in RECEIVED["pager"][0].text
    marker.with_name("hidden").rename(marker)
    folder.dead = {stream.name for stream in folder.streams}
    # The drivers have halted without it; they are on their way back, and nobody is told of each.
    folder.look(240.0)
    found = folder.look(310.0)
    assert folder.told()[1:] == folder.told("pager")[1:] == [(name, "control", False)]
    assert len(found.revive) == 4
    folder.look(600.0)
    assert {kind for _, kind, _ in folder.told()[2:]} == {"down"}


def test_a_root_that_nobody_can_write_is_one_incident_too(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.look(0.0)
    for number in range(3):
        (home(folder, number) / NAME).unlink()
        (home(folder, number) / NAME).mkdir()
    folder.look(60.0)
    folder.look(120.0)
    # Something of this kind in one folder is that stream's; what is out of reach is the root's.
    assert {kind for _, kind, _ in folder.told()} == {"watch"}

    def full(*_: Any) -> None:
        raise OSError(28, "no space")

    for number in range(3):
        (home(folder, number) / NAME).rmdir()
    RECEIVED.clear()
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        folder.memory = {}
        folder.look(180.0)
        folder.look(240.0)
    assert [kind for _, kind, _ in folder.told()] == ["control"]


def test_a_cluster_that_does_not_answer_explains_that_streams_are_down(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = {"conn_type": "spark", "host": "spark://127.0.0.1:1", "extra": {"master_ui": "http://127.0.0.1:1"}}
    folder.look(0.0)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps(away))
    folder.dead = {"s0001", "s0002"}
    folder.look(40.0)  # not when they have just been silent for two leases: a busy machine would see that of one only
    found = folder.look(125.0)
    assert (found.revive, folder.told()) == ((), [("cluster spark_here", "cluster", True)])
    assert "Down: 2 streams (s0001, s0002)." in RECEIVED[""][0].text
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    found = folder.look(180.0)
    assert folder.told()[1:] == [("cluster spark_here", "cluster", False)]
    assert found.revive == ("s0001", "s0002")


def test_a_stream_that_goes_down_while_its_cluster_is_away_is_told_of_in_that_incident(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a review: people knew of one stream, and of no other until the cluster was back."""
    away = {"conn_type": "spark", "host": "spark://127.0.0.1:1", "extra": {"master_ui": "http://127.0.0.1:1"}}
    folder.look(0.0)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps(away))
    folder.dead = {"s0001"}
    folder.look(40.0)
    folder.look(125.0)
    # Of a stream that is not looked at now, it is still so.
    folder.seldom = {"s0001"}
    folder.dead = {"s0001", "s0000"}
    for after in (165.0, 250.0, 310.0):
        folder.look(after)
    folder.seldom = set()
    folder.look(370.0)
    assert folder.told() == [("cluster spark_here", "cluster", True)] * 2
    first, second = RECEIVED[""]
    assert first.incident == second.incident
    assert "Down: 1 stream (s0001)." in first.text
    assert "Down: 2 streams (s0000, s0001)." in second.subject
    # What a driver has said itself, no cluster explains.
    write(folder.streams[3].log, failed(folder.streams[3].holder))
    folder.look(430.0)
    assert folder.told()[2:] == [("s0003", "down", True)]
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    folder.look(490.0)
    assert folder.told()[3:] == [("cluster spark_here", "cluster", False)]


def test_checkpoints_that_hang_for_all_streams_are_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mock stands for a Kafka that answers: one that does not would explain the same."""

    def mock_measure(kafka: Any, committed: Any, moments: Any) -> None:
        kafka.reports = {name: LagReport(time.time()) for name in committed}

    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_HERE", json.dumps({"conn_type": "kafka", "extra": {}}))
    monkeypatch.setattr(root_reads, "EACH_SECONDS", 0.5)
    monkeypatch.setattr(kafka_look.KafkaLook, "connect", lambda mock: None)
    monkeypatch.setattr(kafka_look.KafkaLook, "measure", mock_measure)
    folder = Folder(tmp_path, 3)
    folder.look(0.0)
    free = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(folder_reading, "read_committed", lambda reading: free.wait())
        for after in (60.0, 120.0, 661.0, 721.0):
            folder.look(after)
    free.set()
    name = f"checkpoint storage of {folder.streams[0].control}"
    assert folder.told() == [(name, "checkpoints", True)]
    assert "3 of 3 checkpoints cannot be read." in RECEIVED[""][0].text
    assert folder.sample(0).open_incidents == {}
    folder.look(780.0)
    assert folder.told()[1:] == [(name, "checkpoints", False)]


def test_a_connection_that_is_missing_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    extra = connections.kafka_extra
    monkeypatch.setattr(
        "airflow_stream_provider.monitoring.folder_reading.kafka_extra",
        lambda each: (asked.append(each), extra(each))[1],
    )
    folder = Folder(tmp_path, 3, kafka="nowhere")
    folder.look(0.0)
    assert asked == ["nowhere"]
    assert "nowhere" in folder.sample(0).problem
    folder.look(601.0)
    assert folder.told() == [("Kafka nowhere", "kafka", True)]
    assert folder.sample(0).open_incidents == {}


def test_what_streams_need_is_told_to_those_of_streams_that_are_not_looked_at_now(folder: Folder) -> None:
    folder.seldom = {"s0002", "s0003"}
    folder.more = {"s0003": {"notify": [{"call": f"{HERE}.receive", "arguments": {"name": "pager"}}]}}
    folder.look(0.0)
    marker = home(folder, 0).parent / MARKER
    marker.rename(marker.with_name("hidden"))
    for after in (60.0, 120.0):
        folder.look(after)
    assert folder.told() == folder.told("pager") == [(f"control root {folder.streams[0].control}", "control", True)]
    assert "4 streams (s0000, s0001, s0002, s0003)" in RECEIVED["pager"][0].text


def test_a_look_at_one_stream_of_a_root_that_fails_does_not_end_what_is_known_of_the_root(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "no space")

    seldom = {"s0001", "s0002", "s0003"}
    folder.look(0.0)
    monkeypatch.setattr(os, "write", full)
    for minute in range(1, 7):
        folder.seldom = set() if minute % 5 == 0 or minute == 1 else seldom
        folder.look(60.0 * minute)
    assert ("control root " + folder.streams[0].control, "control", True) in folder.told()


def test_a_kafka_that_is_away_does_not_hide_that_a_driver_is_silent(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 3, kafka="nowhere")
    folder.look(0.0)
    folder.dead = {"s0001"}
    folder.look(60.0)
    found = folder.look(125.0)
    assert (found.revive, folder.told()) == (("s0001",), [("s0001", "down", True)])


def test_queries_that_fail_while_their_kafka_is_away_are_told_of_at_once_and_with_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 3, kafka="nowhere")
    folder.look(0.0)
    for stream in folder.streams[:2]:
        write(stream.log, failed(stream.holder))
    found = folder.look(60.0)
    assert (found.revive, folder.told()) == (("s0000", "s0001"), [("Kafka nowhere", "kafka", True)])
    assert "Down: 2 streams (s0000, s0001)." in RECEIVED[""][0].text


def test_a_look_without_time_for_a_stream_says_nothing_of_it_and_the_next_begins_with_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [stream.name for stream in folder.streams]
    folder.look(0.0)
    folder.dead = {"s0001"}
    with monkeypatch.context() as patched:
        patched.setattr(root_reads, "READ_SECONDS", 0.0)
        for after in (60.0, 120.0, 659.0):
            found = folder.look(after)
            assert (found.summary["looked"], found.summary["unanswered"], found.problem) == (0, {}, "")
            assert (found.summary["not_reached"], found.summary["never_deployed"], found.revive) == (names, [], ())
        found = folder.look(661.0)
    assert "no time for 4 streams (s0000, s0001, s0002, s0003)" in found.problem
    assert "For 10 min" in found.problem
    assert folder.told() == []
    assert folder.sample(0).at < folder.began + 1
    found = folder.look(720.0)
    assert (found.summary["looked"], found.summary["not_reached"], found.problem) == (4, [], "")
    assert folder.told() == [("s0001", "down", True)]


def test_a_sample_that_there_was_no_time_to_write_is_nobodys_failure(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_reads, "WRITE_SECONDS", 0.0)
    folder.dead = {"s0001"}
    for after in (0.0, 60.0, 130.0):
        found = folder.look(after)
    assert (found.summary["looked"], found.summary["unanswered"]) == (0, {})
    assert (len(found.summary["not_reached"]), folder.told()) == (4, [])


def test_streams_of_several_recipients_each_tell_their_own(folder: Folder) -> None:
    folder.look(0.0)
    folder.dead = {"s0000"}
    folder.notify = [{"call": f"{HERE}.receive", "arguments": {"name": name}} for name in ("b", "a")]
    folder.look(60.0)
    folder.look(125.0)
    # Whoever stands first in the YAML now: nobody is told again, nor taken for another one.
    folder.notify = folder.notify[::-1]
    folder.look(180.0)
    assert folder.told("a") == folder.told("b") == [("s0000", "down", True)]
    assert set(folder.sample(0).incidents["down"].acknowledged) == set(recipients_of([folder.spec(folder.streams[0])]))


def test_a_recipient_that_hangs_is_left_behind_and_tried_again(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_stream_provider.monitoring.telling.SECONDS", 1.0)
    folder.look(0.0)
    folder.dead = {"s0000"}
    folder.notify = [{"call": f"{HERE}.hang"}, {"call": f"{HERE}.receive"}]
    folder.look(60.0)
    folder.look(125.0)
    assert f"{HERE}.hang" not in folder.sample(0).incidents["down"].acknowledged
    OVER.set()
    folder.look(180.0)
    assert f"{HERE}.hang" in folder.sample(0).incidents["down"].acknowledged
    assert len(folder.told()) == 1


@pytest.mark.parametrize("memory", [None, "x", {"version": 7}, {"version": 1, "subjects": [["kafka"]]}])
def test_a_memory_that_cannot_be_used_spoils_no_look(folder: Folder, memory: Any) -> None:
    folder.memory = memory
    assert folder.look(0.0).summary["looked"] == 4
    assert FolderMemory.from_json(folder.memory).subjects == {}


def test_no_stream_at_all_is_a_look_too() -> None:
    assert look_at_all([], {}, {}).summary["looked"] == 0


def test_what_goes_wrong_with_one_stream_in_ways_not_thought_of_is_that_streams(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = "airflow_stream_provider.monitoring.folder_look.found_symptoms"
    from airflow_stream_provider.monitoring.watch_look import found_symptoms

    def odd(snapshot: Any, *rest: Any) -> Any:
        if snapshot.stream == "s0002":
            raise ZeroDivisionError("https://hooks.example.org/hunter2")
        return found_symptoms(snapshot, *rest)

    monkeypatch.setattr(judged, odd)
    found = folder.look(0.0)
    assert found.summary["unanswered"] == {"s0002": "ZeroDivisionError; see the task's log."}
    assert found.summary["looked"] == 3


def test_a_folder_is_cleaned_up_once_an_hour_at_its_own_moment(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    cleaned: list[tuple[str, float]] = []
    after = 0.0
    monkeypatch.setattr(
        "airflow_stream_provider.monitoring.folder_look.clean_up", lambda each: cleaned.append((each.spec.name, after))
    )
    for minute in range(0, 121, 10):
        after = minute * 60.0
        folder.look(after)
    for stream in folder.streams:
        assert len([name for name, _ in cleaned if name == stream.name]) == 2
    assert len({at for _, at in cleaned}) > 2


def test_the_stages_of_a_look_end_in_a_bit_more_than_a_minute() -> None:
    """However much hangs: the sum of what is waited for at most where something hangs in every stage."""
    each, alerts = root_reads.EACH_SECONDS, telling.SECONDS
    hung = root_reads.MOST_HANGING / root_reads.WIDTH * 2.0 + each
    checkpoints = min(hung, root_reads.WRITE_SECONDS + each)
    assert max(hung, kafka_look.CONNECT_SECONDS) + checkpoints + kafka_look.MEASURE_SECONDS + each + alerts < 75
