"""Which streams a watch looks after, and by which declaration, while people edit the files."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_stream_provider.spec.folder import read_folder
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from airflow_stream_provider.spec.watched import Declared, WatchedFolder, is_due, note_of, renewed, watched_folder

WATCH = "streams__watch"
ROOT, OTHER = "file:///data", "file:///elsewhere"
GOOD = """\
name: {0}
application: apps/{0}.py
version: v1
cluster: c
control: file:///data
kafka: k
arguments: [--secretless]
lag: {{max_records: 7, verdicts: [STOP]}}
watch: {{schedule: 5m}}
notify: [{{call: people.page, arguments: {{who: [anna]}}}}]
"""


class Folder:
    """A folder of YAML files, and what is noted in two control roots."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: dict[str, dict[str, bytes]] = {ROOT: {}, OTHER: {}}

    def write(self, file: str, name: str, old: str = "", new: str = "") -> None:
        (self.path / file).write_text(GOOD.format(name).replace(old, new) if old else GOOD.format(name))

    def look(self, problem: str = "") -> WatchedFolder:
        """Look as the watch does, and note what it finds."""
        found = watched_folder(WATCH, [] if problem else read_folder(self.path), self.notes, problem)
        for name, spec in found.streams.items():
            self.notes[spec.control][name] = note_of(spec, WATCH)
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    found.write("orders.yaml", "orders")
    found.write("payments.yaml", "payments")
    found.look()
    return found


def test_what_the_files_say_is_watched_and_nothing_is_wrong(folder: Folder) -> None:
    folder.write("orders.yaml", "orders", "max_records: 7", "max_records: 8")
    found = folder.look()
    assert {name: spec.lag.max_records for name, spec in found.streams.items()} == {"orders": 8, "payments": 7}
    assert (found.troubles, found.left, found.unknown) == ({}, frozenset(), ())


@pytest.mark.parametrize(
    "text",
    ["name: [", "", "\0", GOOD.format("orders").replace("control", "contorl"), "name: /7\ncontrol: file:///wrong\n"],
)
def test_a_broken_file_stands_for_the_stream_that_it_declared_last(folder: Folder, text: str) -> None:
    (folder.path / "orders.yaml").write_text(text)
    for _ in range(3):
        found = folder.look()
        assert set(found.streams) == {"orders", "payments"}
        assert found.streams["orders"].lag.max_records == 7
        assert found.streams["orders"].notify[0].arguments == {"who": ["anna"]}
        assert "orders.yaml" in found.troubles["orders"]
        assert ([*found.troubles], found.left, found.unknown) == (["orders"], frozenset(), ())
    folder.write("orders.yaml", "orders")
    assert folder.look().troubles == {}


def test_a_stream_whose_file_is_gone_is_watched_on(folder: Folder) -> None:
    (folder.path / "orders.yaml").unlink()
    for _ in range(3):
        found = folder.look()
        assert "orders.yaml is gone, and no other file describes orders. It runs on" in found.troubles["orders"]
        assert (set(found.streams), found.left) == ({"orders", "payments"}, frozenset({"orders"}))
    folder.write("shop.yaml", "orders", "max_records: 7", "max_records: 8")
    found = folder.look()
    assert (found.streams["orders"].lag.max_records, found.troubles) == (8, {})


def test_a_stream_whose_file_has_another_name_in_it_now_is_watched_on(folder: Folder) -> None:
    for name in ("order", "orde", "order"):  # as often as a person edits it
        folder.write("orders.yaml", name)
        found = folder.look()
        assert f"orders.yaml describes {name} now, and no other file describes orders." in found.troubles["orders"]
        assert name not in found.troubles


def test_a_stream_whose_control_was_changed_is_watched_where_it_was(folder: Folder) -> None:
    folder.write("orders.yaml", "orders", ROOT, OTHER)
    for _ in range(3):
        found = folder.look()
        assert found.streams["orders"].control == ROOT
        assert f"`control` is {OTHER} now" in found.troubles["orders"]
        assert (found.moved["orders"].control, found.left) == (OTHER, frozenset({"orders"}))
    del folder.notes[ROOT]["orders"]  # it was stopped there
    found = folder.look()
    assert (found.streams["orders"].control, found.troubles) == (OTHER, {})


def test_a_folder_that_cannot_be_read_leaves_no_stream_and_gives_none_up(folder: Folder) -> None:
    found = folder.look("The folder does not answer.")
    assert (set(found.streams), found.left) == ({"orders", "payments"}, frozenset())
    assert found.unknown == ("The folder does not answer.",)


def test_a_file_by_which_nothing_was_declared_is_unknown(folder: Folder) -> None:
    folder.write("new.yaml", "new", "version: v1", "version: /1")
    folder.write("twin.yaml", "orders")
    found = folder.look()
    assert set(found.streams) == {"orders", "payments"}
    assert ["new.yaml" in found.unknown[0], "twin.yaml" in found.unknown[1]] == [True, True]


def test_another_watchs_streams_are_left_to_it_and_nobodys_are_taken(folder: Folder) -> None:
    spec = folder.look().streams["orders"]
    folder.notes[ROOT] |= {
        "theirs": note_of(spec.model_copy(update={"name": "theirs"}), "other__watch"),
        "nobodys": note_of(spec.model_copy(update={"name": "nobodys"}), ""),
        "older": b"",
        ".other__watch": b"{}",
    }
    assert set(folder.look().streams) == {"orders", "payments", "nobodys"}
    declared = Declared.read("nobodys", ROOT, folder.notes[ROOT]["nobodys"])
    assert declared is not None
    assert declared.watch == WATCH


def test_a_note_is_what_a_watch_needs_and_no_more(folder: Folder) -> None:
    spec = load_spec(folder.path / "orders.yaml")
    note = note_of(spec, WATCH)
    assert set(json.loads(note)["stream"]) == {"cluster", "kafka", "lag", "watch", "notify"}
    again = Declared.read("orders", ROOT, note)
    assert again is not None
    assert again.spec.lag == spec.lag
    assert note_of(again.spec, WATCH) == note
    assert renewed(spec, note) == note
    assert json.loads(renewed(spec, None))["watch"] == ""


SAID = {"file": "a.yaml", "watch": "w", "stream": {"cluster": "c"}}


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"-",
        b"[]",
        b"[" * 200_000,
        json.dumps({**SAID, "stream": 7}).encode(),
        json.dumps({**SAID, "stream": {"cluster": "c", "lag": {"of": "another version"}}}).encode(),
        json.dumps(
            {**SAID, "stream": {"cluster": "c", "notify": [{"call": "a.b", "arguments": {"password": "x"}}]}}
        ).encode(),
        json.dumps({"stream": SAID["stream"]}).encode(),
    ],
)
def test_what_is_no_note_of_this_version_is_none(note: bytes) -> None:
    assert Declared.read("orders", ROOT, json.dumps(SAID).encode()) is not None
    assert Declared.read("orders", ROOT, note) is None
    assert Declared.read("../orders", ROOT, json.dumps(SAID).encode()) is None


def spec_every(schedule: float | None, name: str = "orders") -> StreamSpec:
    fields = {"application": "a.py", "version": "1", "cluster": "c", "control": "file:///d"}
    return StreamSpec.model_validate({**fields, "name": name, "watch": {"schedule": schedule}})


@pytest.mark.parametrize("every", [5, 60, 90, 300, 3600])
@pytest.mark.parametrize("name", ["orders", "payments", "x"])
def test_a_stream_is_looked_at_as_often_as_it_says(every: float, name: str) -> None:
    spec, runs = spec_every(every, name), [60.0 * n for n in range(1000, 1241)]
    looks = [now for last, now in pairwise(runs) if is_due(spec, last, now)]
    assert len(looks) == pytest.approx(240 * 60 / max(every, 60), abs=1)


def test_a_look_that_was_missed_is_made_up_for() -> None:
    assert is_due(spec_every(300), 60_000, 60_300)
    assert is_due(spec_every(300), 0, 60_000)


def test_not_every_stream_is_due_in_the_same_look() -> None:
    due = [sum(is_due(spec_every(300, f"s{n}"), at, at + 60) for n in range(100)) for at in range(6000, 6300, 60)]
    assert sum(due) == 100
    assert max(due) < 40


def test_a_stream_without_a_schedule_is_not_watched() -> None:
    assert not is_due(spec_every(None), 0, 60_000)
