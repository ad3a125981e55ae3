"""One look at all streams of a folder: what befalls one of them, and who is told how often."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control.files_root import SampleFile
from airflow_stream_provider.control.root import MARKER
from airflow_stream_provider.lifecycle.vitals import Vitals
from airflow_stream_provider.monitoring import delivery, folder_reading, readings
from airflow_stream_provider.monitoring.folder_look import FolderLook
from airflow_stream_provider.monitoring.recipients import recipients_of
from airflow_stream_provider.monitoring.samples import read
from airflow_stream_provider.monitoring.trends import LEAST_SECONDS
from airflow_stream_provider.spec.configured import DELIVERY_SECONDS
from devstack.control_folder import folder_of
from devstack.many_streams import StoredStream
from tests.support.watched_folder import HERE, OVER, RECEIVED, WATCH, Folder, home, stop

pytestmark = pytest.mark.usefixtures("spark_here")
EACH_SECONDS, WRITE_SECONDS = folder_reading.EACH_SECONDS, folder_reading.WRITE_SECONDS  # not those of the fixture


def test_every_stream_gets_a_sample_and_nobody_is_told_of_what_is_well(folder: Folder) -> None:
    for after in (0.0, 60.0):
        found = folder.look(after)
        assert (found.summary["looked"], found.summary["unanswered"], found.revive) == (4, {}, {})
    for number in range(4):
        samples = read(SampleFile(folder_of(folder.streams[number].log)))
        assert [each.at - folder.began for each in samples] == pytest.approx([0, 60], abs=30)
        assert (folder.sample(number).phase, folder.sample(number).version) == ("running", "1.1")
    assert folder.told() == []
    assert len(folder.root.noted()[f".{WATCH}"]) < 150


def test_a_stream_whose_driver_is_silent_is_told_of_and_brought_back(folder: Folder) -> None:
    folder.look(0.0)
    folder.dead = {"s0001"}
    found = folder.look(60.0)
    assert ([*found.revive], folder.told()) == (["s0001"], [("s0001", "down", True)])
    assert "The revive DAG brings it back." in RECEIVED[""][0].text
    found = folder.look(125.0)
    assert ([*found.revive], folder.told()) == (["s0001"], [("s0001", "down", True)])
    folder.dead = set()
    assert folder.look(180.0).revive == {}
    assert folder.told()[1:] == [("s0001", "down", False)]
    assert len({each.incident for each in RECEIVED[""]}) == 1


def test_a_stream_that_was_stopped_or_never_deployed_is_not_brought_back(folder: Folder, tmp_path: Path) -> None:
    stop(folder.streams[0])
    folder.streams.append(StoredStream(tmp_path, "s9999", ""))
    folder.dead = {"s0000", "s9999"}
    for after in (0.0, 60.0, 300.0):
        found = folder.look(after)
        assert found.revive == {}
    assert (found.summary["never_deployed"], found.summary["looked"], folder.told()) == (["s9999"], 4, [])


def test_a_folder_that_has_gone_is_an_error_and_no_stream_that_was_never_deployed(folder: Folder) -> None:
    folder.look(0.0)
    shutil.move(home(folder, 2), folder.streams[2].folder / "aside")
    found = folder.look(60.0)
    assert list(found.summary["unanswered"]) == ["s0002"]
    assert "The control log of s0002 has gone: it was in" in found.summary["unanswered"]["s0002"]
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


def test_what_people_know_of_a_root_that_is_away_is_kept_elsewhere(folder: Folder) -> None:
    folder.look(0.0)
    marker = home(folder, 0).parent / MARKER
    marker.rename(marker.with_name("hidden"))
    for after in (60.0, 120.0, 180.0):
        folder.look(after)
    assert folder.saved["at"] == folder.began + 180
    marker.with_name("hidden").rename(marker)
    folder.look(240.0)
    folder.look(300.0)
    assert [(kind, open) for _, kind, open in folder.told()] == [("control", True), ("control", False)]
    assert folder.memory.at == folder.began + 300, "and here again once it is back"


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
            assert (found.summary["not_reached"], found.summary["never_deployed"], found.revive) == (names, [], {})
        found = folder.look(661.0)
    assert "no time for 4 streams (s0000, s0001, s0002, s0003)" in found.problem
    assert "For 10 min" in found.problem
    assert folder.told() == [(WATCH, "watch", True)]
    assert folder.sample(0).at < folder.began + 30
    found = folder.look(720.0)
    assert (found.summary["looked"], found.summary["not_reached"], found.problem) == (4, [], "")
    assert folder.told()[1:] == [("s0001", "down", True), (WATCH, "watch", False)]


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
        patched.setattr(delivery, "delivery_seconds", lambda: 1.0)
        folder.look(60.0)
        folder.look(125.0)
    assert f"{HERE}.hang" not in folder.sample(0).incidents["down"].acknowledged
    OVER.set()
    folder.look(180.0)
    assert f"{HERE}.hang" in folder.sample(0).incidents["down"].acknowledged
    assert len(folder.told()) == 1


@pytest.mark.parametrize("memory", [None, "x", {"version": 7}, {"version": 1, "subjects": [["kafka"]]}])
def test_a_memory_that_cannot_be_used_spoils_no_look(folder: Folder, memory: Any) -> None:
    folder.saved = memory
    folder.root.note(f".{WATCH}", json.dumps(memory).encode())
    assert folder.look(0.0).summary["looked"] == 4
    assert folder.memory.subjects == {}


def test_no_stream_at_all_is_a_look_too() -> None:
    saved: list[Any] = []
    assert FolderLook(WATCH, [], [], None, {}, saved.append).go().summary["looked"] == 0
    assert len(saved) == 1, "there is no root to keep it"


def test_a_look_that_fails_is_told_to_everybody_once_and_once_that_it_works_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.look(0.0)
    with monkeypatch.context() as patched:
        patched.setattr(FolderLook, "_judge", lambda look: 1 / 0)
        for after in (60.0, 120.0):
            with pytest.raises(ZeroDivisionError):
                folder.look(after)
            folder.last_look.tell_of_watch("The watch cannot look.")
            folder.last_look.watching.keep()
    assert folder.told() == [(WATCH, "watch", True)]
    folder.look(180.0)
    folder.look(240.0)
    assert folder.told()[1:] == [(WATCH, "watch", False)]


def test_a_stream_that_was_due_in_a_look_that_failed_is_due_in_the_next(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.seldom = {"s0000"}
    with monkeypatch.context() as patched:
        patched.setattr(FolderLook, "_judge", lambda look: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            folder.look(0.0)
    assert folder.look(60.0).summary["looked"] == 4
    assert folder.look(120.0).summary["looked"] == 3


def test_what_goes_wrong_in_telling_that_the_watch_fails_hides_nothing_and_is_left_for_the_next_look(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder.look(0.0)
    with monkeypatch.context() as patched:
        patched.setattr("airflow_stream_provider.monitoring.folder_look.tell", lambda *_: 1 / 0)
        folder.last_look.tell_of_watch("The watch cannot look.")
    assert "the next look tries again: ZeroDivisionError" in caplog.text
    folder.last_look.tell_of_watch("The watch cannot look.")
    assert folder.told() == [(WATCH, "watch", True)]


def test_a_change_is_taken_up_once_two_looks_have_found_it(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may be synchronized one after the other."""
    wish = "1a"
    monkeypatch.setattr("airflow_stream_provider.monitoring.folder_look.unasked_release", lambda *_: wish)
    folder.more = {"s0001": {"upgrade": {"on_change": True}}}
    assert folder.look(0.0).changed == {}
    wish = "2b"
    assert folder.look(60.0).changed == {}
    assert folder.look(120.0).changed == {"s0001": "2b"}
    folder.problems = {"s0001": "s0001.yaml is broken."}
    assert folder.look(180.0).changed == {}, "what was declared last has no files"


def test_a_leak_is_foretold_and_a_fresh_driver_is_due_once_little_is_left(folder: Folder) -> None:
    folder.more = {"s0001": {"upgrade": {"refresh": "auto"}}}
    full, hours = 20.0, [each / 6 + 0.05 for each in range(90)]  # never just 6 h before the end
    for after in hours:
        used = int(1e9 * (0.2 + 0.8 * after / full))
        folder.vitals = Vitals(after, heap_after_gc=used, heap_max=10**9)
        found = folder.look(3600 * after)
        assert list(found.refresh) == (["s0001"] if 2 * LEAST_SECONDS / 3600 < full - after < 6 else [])
    assert folder.sample(1).runs_out["heap"] == pytest.approx(3600 * (full - hours[-1]), rel=0.05)
    before, folder.vitals = folder.sample(1).runs_out, None
    folder.look(3600 * hours[-1] + 60)
    assert folder.sample(1).runs_out == before, "a heartbeat without vitals says nothing"
    assert {kind for _, kind, _ in folder.told()} == {"trend"}
    texts = {each.stream: each.text for each in RECEIVED[""]}
    assert "The heap is full in" in texts["s0000"]
    assert "`upgrade.refresh: auto`" in texts["s0000"]
    assert (
        "A fresh driver of the same release takes over when the heap has 6 h left, and this one is as old."
        in texts["s0001"]
    )
    refresh = found.refresh["s0001"]
    held = folder.streams[1].log.refresh().holding_deployment
    assert held is not None
    assert (refresh.deployment, refresh.release) == (held.id, held.release.hash)
    assert refresh.reason.startswith("Refresh 1: The heap is full in 5 h")


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
    assert asked + EACH_SECONDS + DELIVERY_SECONDS < 75
