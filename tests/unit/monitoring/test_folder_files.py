"""One look at a folder whose YAML files are broken, gone, moved or changed: the streams run on, and people are told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_stream_provider.control import make_root
from airflow_stream_provider.control.files_root import FilesRoot
from airflow_stream_provider.spec.watched import Declared, note_of
from devstack.many_streams import StoredStream
from tests.support.control_root import new_log
from tests.support.story import (
    acquired,
    declared,
    ready,
    requested,
    standby,
    submitted,
    write,
)
from tests.support.watched_folder import RECEIVED, WATCH, Folder, home, stop

pytestmark = pytest.mark.usefixtures("spark_here")
FILES = (f"{WATCH}-files", "watch")


def test_a_broken_yaml_changes_nothing_and_is_told_of_once(folder: Folder) -> None:
    folder.more = {"s0000": {"lag": {"max_records": 7}}}
    folder.look(0.0)
    folder.problems = {"s0000": "s0000.yaml, line 3: version is missing."}
    for after in (60.0, 120.0, 180.0):
        folder.look(after)
    assert folder.sample(0).at == pytest.approx(folder.began + 180, abs=30)
    assert folder.last_look.folder["s0000"].lag.max_records == 7
    assert folder.told() == [(*FILES, True)]
    assert (
        "line 3: version is missing. It runs on, and is watched and brought back as before. A run of its upgrade"
        in RECEIVED[""][0].text
    )
    folder.dead = {"s0000"}
    assert [*folder.look(300.0).revive] == ["s0000"]
    folder.dead, folder.problems = set(), {}
    folder.look(360.0)
    assert (*FILES, False) in folder.told()


def test_limits_count_from_the_next_look_that_finds_a_good_yaml_and_are_noted(folder: Folder) -> None:
    folder.look(0.0)
    folder.more = {"s0000": {"lag": {"max_records": 7}}}
    folder.look(60.0)
    noted = Declared.read("s0000", folder.roots[0], folder.root.noted()["s0000"])
    assert noted is not None
    assert (noted.spec.lag.max_records, noted.watch, noted.spec.source.name) == (7, WATCH, "s0000.yaml")


def test_more_broken_files_are_told_again_with_the_same_id_and_in_one_alert(folder: Folder) -> None:
    folder.look(0.0)
    folder.problems = {"s0000": "s0000.yaml is broken."}
    folder.look(60.0)
    folder.look(120.0)
    folder.problems |= {name: f"{name}.yaml is broken." for name in ("s0001", "s0002")}
    folder.look(180.0)
    del folder.problems["s0001"]
    folder.look(240.0)
    assert folder.told() == [(*FILES, True)] * 2
    assert len({each.incident for each in RECEIVED[""]}) == 1
    assert "3 YAML files cannot be used" in RECEIVED[""][1].subject


def test_a_file_of_which_no_stream_was_ever_declared_is_told_to_everybody(folder: Folder) -> None:
    folder.look(0.0)
    folder.streams.append(StoredStream(folder.streams[0].folder, "s9999", ""))
    folder.problems = {"s9999": "s9999.yaml, line 2: this is not YAML."}
    folder.look(60.0)
    folder.look(120.0)
    assert folder.told() == [(*FILES, True)]
    assert "1 YAML file cannot be used: s9999.yaml, line 2" in RECEIVED[""][0].text


def test_streams_are_watched_and_brought_back_when_all_their_files_are_gone(folder: Folder) -> None:
    """As when what fills the folder has emptied it; nothing names a control root then."""
    folder.look(0.0)
    folder.without = {each.name for each in folder.streams}
    folder.dead = {"s0003"}
    for after in (60.0, 130.0):
        found = folder.look(after)
    assert ([*found.revive], found.summary["looked"]) == (["s0003"], 4)
    assert found.revive["s0003"].control == folder.roots[0]
    assert (*FILES, True) in folder.told()
    text = next(each.text for each in RECEIVED[""] if each.stream == FILES[0])
    assert "s0000.yaml is gone, and no other file describes s0000. It runs on" in text


def test_streams_are_watched_while_their_folder_cannot_be_read(folder: Folder) -> None:
    folder.look(0.0)
    stop(folder.streams[0])
    folder.unread = "The folder streams has not answered for 60 s."
    for after in (60.0, 120.0):
        found = folder.look(after)
    assert found.summary["looked"] == 4, "it may be there: one that rests is not forgotten"
    assert folder.told() == [(*FILES, True)]
    assert "The folder streams has not answered" in RECEIVED[""][0].text


@pytest.mark.parametrize("log", ["stopped", "gone"])
def test_a_stream_whose_yaml_is_gone_is_watched_until_it_rests_or_its_log_has_gone_too(
    folder: Folder, log: str
) -> None:
    folder.look(0.0)
    folder.without = {"s0000"}
    stream = folder.streams[0]
    if log == "gone":
        shutil.rmtree(home(folder, 0))
    for after in (60.0, 120.0):
        folder.look(after)
    assert (("s0000", "watch", True) in folder.told()) is (log == "gone")
    assert (*FILES, True) in folder.told()
    if log == "stopped":
        stop(stream)
    told = len(folder.told())
    folder.look(180.0)
    folder.look(240.0)
    assert "s0000" not in folder.root.noted()
    assert (*FILES, False) in folder.told()[told:]
    assert (("s0000", "watch", False) in folder.told()) is (log == "gone")
    assert folder.look(300.0).summary["looked"] == 3


def test_a_stream_of_another_watch_is_left_to_it_until_a_yaml_of_this_folder_describes_it(folder: Folder) -> None:
    folder.look(0.0)
    folder.without = {"s0000"}
    folder.root.note("s0000", note_of(folder.spec(folder.streams[0]), "other__watch"))
    assert folder.look(60.0).summary["looked"] == 3
    assert folder.told() == []
    folder.without = set()
    assert folder.look(120.0).summary["looked"] == 4


def test_a_stream_whose_control_was_changed_is_watched_where_it_runs(folder: Folder, tmp_path: Path) -> None:
    other = (tmp_path / "other").as_uri()
    make_root(other)
    folder.look(0.0)
    folder.more = {"s0000": {"control": other}}
    folder.dead = {"s0000"}
    for after in (60.0, 130.0):
        found = folder.look(after)
    assert found.revive["s0000"].control == folder.roots[0]
    text = next(each.text for each in RECEIVED[""] if each.stream == FILES[0])
    assert f"`control` is {other} now, and it is not stopped under {folder.roots[0]}." in text
    # A driver has held it there.
    log = new_log(other, "s0000")
    write(
        log,
        declared("d-1"),
        submitted("d-1"),
        standby("d-1.00000001"),
        requested("r", "d-1.00000001"),
        ready("r", "d-1.00000001"),
    )
    write(log, acquired("d-1.00000001", "r", 1))
    FilesRoot(other).note("s0000", note_of(folder.spec(folder.streams[0], control=other), ""))
    folder.look(190.0)
    assert "s0000" not in folder.root.noted()
    assert folder.last_look.folder["s0000"].control == other
    assert (*FILES, False) in folder.told()


def test_a_note_that_cannot_be_understood_is_told_where_no_yaml_describes_its_stream(folder: Folder) -> None:
    folder.look(0.0)
    folder.root.note("s0000", b"{")
    folder.look(60.0)
    assert folder.root.noted()["s0000"] != b"{", "its YAML says it anew"
    folder.without = {"s0000"}
    folder.root.note("s0000", b"{")
    folder.look(120.0)
    folder.look(180.0)
    assert folder.told() == [(*FILES, True)]
    assert "What was declared of s0000 in" in RECEIVED[""][0].text
