"""One look at all streams of a folder: what they need in common is away, and that is told once."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

from airflow_stream_provider.control.bounded import NoAnswer
from airflow_stream_provider.control.files_root import NAME
from airflow_stream_provider.control.root import MARKER
from airflow_stream_provider.hooks import connections
from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.monitoring import folder_reading, readings
from tests.support.story import failed, write
from tests.support.watched_folder import HERE, RECEIVED, Folder, home

pytestmark = pytest.mark.usefixtures("spark_here")


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
    assert ([*found.revive], folder.told()) == ([], [("cluster spark_here", "cluster", True)])
    assert "Down: 2 streams (s0001, s0002)." in RECEIVED[""][0].text
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    found = folder.look(180.0)
    assert folder.told()[1:] == [("cluster spark_here", "cluster", False)]
    assert [*found.revive] == ["s0001", "s0002"]


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
    """Mocks stand for a Kafka that answers, as one that does not would explain the same, and for reads that hang."""

    def mock_measure(kafka: Any, committed: Any, moments: Any) -> None:
        kafka.reports = {name: LagReport(time.time()) for name in committed}

    def mock_read(reading: Any) -> None:
        raise NoAnswer("It has not answered within 4 s.")

    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_HERE", json.dumps({"conn_type": "kafka", "extra": {}}))
    monkeypatch.setattr(readings.KafkaLook, "connect", lambda mock: None)
    monkeypatch.setattr(readings.KafkaLook, "measure", mock_measure)
    folder = Folder(tmp_path, 3)
    folder.look(0.0)
    with monkeypatch.context() as patched:
        patched.setattr(folder_reading, "read_committed", mock_read)
        for after in (60.0, 120.0, 661.0, 721.0):
            folder.look(after)
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
    assert ([*found.revive], folder.told()) == (["s0001"], [("s0001", "down", True)])


def test_queries_that_fail_while_their_kafka_is_away_are_told_of_at_once_and_with_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 3, kafka="nowhere")
    folder.look(0.0)
    for stream in folder.streams[:2]:
        write(stream.log, failed(stream.holder))
    found = folder.look(60.0)
    assert ([*found.revive], folder.told()) == (["s0000", "s0001"], [("Kafka nowhere", "kafka", True)])
    assert "Down: 2 streams (s0000, s0001)." in RECEIVED[""][0].text


def test_a_control_root_whose_connection_may_not_be_read_hides_no_other_one(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(url: str) -> Any:
        if url.startswith("kafka://"):
            raise AirflowSecretsBackendAccessDenied("hunter2")
        return control_root(url)

    monkeypatch.setattr("airflow_stream_provider.monitoring.folder_reading.control_root", denied)
    url = "kafka://denied/streams"
    folder.more = {"s0000": {"control": url, "storage": "file:///releases"}}
    for after in (0.0, 60.0):
        folder.look(after)
    assert [folder.sample(number).phase for number in (1, 2, 3)] == ["running"] * 3
    assert folder.told() == [(f"control root {url}", "control", True)]
    assert "cannot be read: AirflowSecretsBackendAccessDenied" in RECEIVED[""][0].text
    assert "hunter2" not in RECEIVED[""][0].text
