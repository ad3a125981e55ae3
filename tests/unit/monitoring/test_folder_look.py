"""One look at all streams of a folder: what befalls one of them, and who is told how often."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control.files_root import SampleFile
from airflow_stream_provider.monitoring import delivery, folder_reading, readings
from airflow_stream_provider.monitoring.causes import FolderMemory
from airflow_stream_provider.monitoring.folder_look import look_at_all
from airflow_stream_provider.monitoring.recipients import recipients_of
from airflow_stream_provider.monitoring.samples import read
from devstack.control_folder import folder_of
from devstack.many_streams import StoredStream
from tests.support.story import released, requested, write
from tests.support.watched_folder import HERE, OVER, RECEIVED, Folder, home

pytestmark = pytest.mark.usefixtures("spark_here")
EACH_SECONDS, WRITE_SECONDS = folder_reading.EACH_SECONDS, folder_reading.WRITE_SECONDS  # not those of the fixture


def test_every_stream_gets_a_sample_and_nobody_is_told_of_what_is_well(folder: Folder) -> None:
    for after in (0.0, 60.0):
        found = folder.look(after)
        assert (found.summary["looked"], found.summary["unanswered"], found.revive) == (4, {}, ())
    for number in range(4):
        samples = read(SampleFile(folder_of(folder.streams[number].log)))
        assert [each.at - folder.began for each in samples] == pytest.approx([0, 60], abs=30)
        assert (folder.sample(number).phase, folder.sample(number).version) == ("running", "1.1")
    assert folder.told() == []
    assert len(json.dumps(found.memory)) < 100


def test_a_stream_whose_driver_is_silent_is_told_of_and_brought_back(folder: Folder) -> None:
    folder.look(0.0)
    folder.dead = {"s0001"}
    found = folder.look(60.0)
    assert (found.revive, folder.told()) == (("s0001",), [("s0001", "down", True)])
    assert "Its revive DAG brings it back, unless its YAML is gone or names another `control`." in RECEIVED[""][0].text
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
    assert "an earlier look of the watch has seen it" in found.summary["unanswered"]["s0002"]
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


@pytest.mark.parametrize("log", ["stopped", "gone"])
def test_the_last_look_at_a_stream_whose_yaml_is_gone_ends_its_incident(folder: Folder, log: str) -> None:
    """Found by a reader: a stream that is given up was never looked at again, so its incident never ended."""
    folder.look(0.0)
    folder.problems = {"s0000": "orders.yaml is gone."}
    if log == "gone":
        shutil.rmtree(home(folder, 0))
    folder.look(60.0)
    folder.look(120.0)
    assert folder.told() == [("s0000", "watch", True)]
    text = RECEIVED[""][0].text
    assert "orders.yaml is gone." in text
    assert ("The control log of s0000 has gone" in text) is (log == "gone")
    folder.problems, folder.last = {}, {"s0000"}
    folder.look(180.0)
    assert folder.told()[1:] == [("s0000", "watch", False)]


def test_a_look_without_time_for_a_stream_says_nothing_of_it_and_the_next_begins_with_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [stream.name for stream in folder.streams]
    folder.look(0.0)
    folder.dead = {"s0001"}
    with monkeypatch.context() as patched:
        patched.setattr(folder_reading, "READ_SECONDS", 0.0)
        for after in (60.0, 120.0, 659.0):
            found = folder.look(after)
            assert (found.summary["looked"], found.summary["unanswered"], found.problem) == (0, {}, "")
            assert (found.summary["not_reached"], found.summary["never_deployed"], found.revive) == (names, [], ())
        found = folder.look(661.0)
    assert "no time for 4 streams (s0000, s0001, s0002, s0003)" in found.problem
    assert "For 10 min" in found.problem
    assert folder.told() == []
    assert folder.sample(0).at < folder.began + 30
    found = folder.look(720.0)
    assert (found.summary["looked"], found.summary["not_reached"], found.problem) == (4, [], "")
    assert folder.told() == [("s0001", "down", True)]


def test_a_sample_that_there_was_no_time_to_write_is_nobodys_failure(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_reading, "WRITE_SECONDS", 0.0)
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
    folder.look(0.0)
    folder.dead = {"s0000"}
    folder.notify = [{"call": f"{HERE}.hang"}, {"call": f"{HERE}.receive"}]
    with monkeypatch.context() as patched:
        patched.setattr(delivery, "DELIVERY_SECONDS", 1.0)
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
    from airflow_stream_provider.monitoring.health import found_symptoms

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
    hung = folder_reading.MOST_HANGING / folder_reading.WIDTH * 2.0 + EACH_SECONDS
    checkpoints = min(hung, WRITE_SECONDS + EACH_SECONDS)
    asked = max(hung, readings.CONNECT_SECONDS) + checkpoints + readings.MEASURE_SECONDS
    assert asked + EACH_SECONDS + delivery.DELIVERY_SECONDS < 75
