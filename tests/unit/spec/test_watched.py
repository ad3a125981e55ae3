"""Which streams are watched, and by which declaration, while people edit the files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.spec.folder import read_folder
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from airflow_stream_provider.spec.watched import WatchedFolder, declaration, declared_spec, is_due, watched_folder

GOOD = """\
name: {0}
application: apps/{0}.py
version: v1
cluster: c
control: file:///data/{0}
kafka: k
arguments: [--secretless]
lag: {{max_records: 7, verdicts: [STOP]}}
watch: {{schedule: 5m}}
notify: [{{call: people.page, arguments: {{who: [anna]}}}}]
"""


class Folder:
    """A folder of YAML files, and what the watch remembers of it between two looks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.declared: Mapping[str, Any] = {}

    def write(self, file: str, name: str, old: str = "", new: str = "") -> None:
        (self.path / file).write_text(GOOD.format(name).replace(old, new) if old else GOOD.format(name))

    def look(self) -> WatchedFolder:
        found = watched_folder(self.path, read_folder(self.path), self.declared)
        # As Airflow keeps it between two runs.
        self.declared = json.loads(json.dumps(found.declared))
        return found

    def controls(self) -> dict[str, str]:
        return {each.spec.name: each.spec.control for each in self.look().streams}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    found.write("orders.yaml", "orders")
    found.write("payments.yaml", "payments")
    return found


@pytest.mark.parametrize(
    "text",
    ["name: [", "", "\0", GOOD.format("orders").replace("control", "contorl"), "name: /7\ncontrol: file:///wrong\n"],
)
def test_a_broken_file_stands_for_the_stream_that_it_described_last(folder: Folder, text: str) -> None:
    [before, _] = folder.look().streams
    (folder.path / "orders.yaml").write_text(text)
    for _ in range(3):
        found = folder.look()
        by_name = {each.spec.name: each for each in found.streams}
        assert set(by_name) == {"orders", "payments"}
        assert declaration(by_name["orders"].spec) == declaration(before.spec)
        assert "orders.yaml" in by_name["orders"].problem
        assert by_name["payments"].problem == ""
        assert found.dags == {"orders": "orders", "payments": "payments"}
    folder.write("orders.yaml", "orders")
    assert [each.problem for each in folder.look().streams] == ["", ""]


def test_the_dags_of_a_broken_file_may_go_by_another_name_than_its_stream(folder: Folder) -> None:
    folder.write("10-orders.yaml", "orders-eu")
    folder.look()
    (folder.path / "10-orders.yaml").write_text("[")
    found = folder.look()
    assert found.dags["orders-eu"] == "10-orders"
    assert "orders-eu" in {each.spec.name for each in found.streams}


def test_a_stream_whose_file_is_gone_is_watched_on(folder: Folder) -> None:
    [before, _] = folder.look().streams
    (folder.path / "orders.yaml").unlink()
    for _ in range(3):
        found = folder.look()
        [_, orders] = found.streams
        assert declaration(orders.spec) == declaration(before.spec)
        assert "orders.yaml is gone, and no other file describes orders." in orders.problem
        assert found.dags == {"payments": "payments"}, "nothing can bring it back"
    folder.write("shop.yaml", "orders", "max_records: 7", "max_records: 8")
    assert [(each.spec.lag.max_records, each.problem) for each in folder.look().streams] == [(7, ""), (8, "")]
    assert set(folder.declared) == {"payments.yaml", "shop.yaml"}


def test_a_stream_whose_file_has_another_name_in_it_now_is_watched_on(folder: Folder) -> None:
    folder.look()
    for name in ("order", "orde", "order"):  # as often as a person edits it
        folder.write("orders.yaml", name)
        found = folder.look()
        problems = {each.spec.name: each.problem for each in found.streams}
        assert f"orders.yaml describes {name} now, and no other file describes orders." in problems["orders"]
        assert problems[name] == ""
        assert found.dags == {name: name, "payments": "payments"}
    (folder.path / "orders.yaml").unlink()
    assert set(folder.controls()) == {"payments", "orders", "order", "orde"}
    folder.write("orders.yaml", "orders")
    assert {each.spec.name for each in folder.look().streams if not each.problem} == {"orders", "payments"}


def test_a_stream_whose_control_was_changed_is_watched_where_it_was(folder: Folder) -> None:
    folder.look()
    folder.write("orders.yaml", "orders", "file:///data/orders", "file:///elsewhere")
    for _ in range(3):
        found = folder.look()
        [orders, _] = found.streams
        assert orders.spec.control == "file:///data/orders"
        assert "`control` is file:///elsewhere now" in orders.problem
        assert found.dags == {"payments": "payments"}
    folder.write("orders.yaml", "orders")
    assert [each.problem for each in folder.look().streams] == ["", ""]


def test_a_file_that_was_renamed_and_broken_in_one_go_is_found_by_its_streams_name(folder: Folder) -> None:
    folder.look()
    (folder.path / "orders.yaml").rename(folder.path / "shop.yaml")
    folder.write("shop.yaml", "orders", "control: file:///data/orders", "control: [")
    assert folder.controls()["orders"] == "file:///data/orders"
    assert set(folder.declared) == {"shop.yaml", "payments.yaml"}


def test_a_second_file_of_a_stream_changes_nothing_for_the_first(folder: Folder) -> None:
    folder.look()
    folder.write("a.yaml", "orders", "file:///data/orders", "file:///elsewhere")
    found = folder.look()
    assert {each.spec.name: each.spec.control for each in found.streams} == {
        "orders": "file:///data/orders",
        "payments": "file:///data/payments",
    }
    assert [each.problem for each in found.streams] == ["", ""]


def test_a_file_that_is_broken_stands_for_the_stream_that_it_was_given_last(folder: Folder) -> None:
    folder.look()
    folder.write("orders.yaml", "order")
    folder.look()
    (folder.path / "orders.yaml").write_text("[")
    found = folder.look()
    assert {each.spec.name for each in found.streams} == {"payments", "order", "orders"}
    assert found.dags == {"payments": "payments", "order": "orders"}


def test_a_file_that_takes_anothers_name_still_stands_for_its_own_stream(folder: Folder) -> None:
    folder.look()
    folder.write("payments.yaml", "orders")
    assert folder.controls() == {"orders": "file:///data/orders", "payments": "file:///data/payments"}


def test_where_nothing_was_ever_good_what_is_right_is_used_and_else_it_is_said(folder: Folder) -> None:
    folder.write("new.yaml", "new", "version: v1", "version: /1")
    (folder.path / "worse.yaml").write_text("[")
    found = folder.look()
    assert {each.spec.name for each in found.streams} == {"orders", "payments", "new"}
    assert "new.yaml" not in folder.declared
    [says] = found.unknown
    assert "worse.yaml" in says


def test_a_declaration_is_what_a_watch_needs_and_no_more(folder: Folder) -> None:
    spec = load_spec(folder.path / "orders.yaml")
    kept = declaration(spec)
    assert set(kept) == {"name", "control", "cluster", "kafka", "lag", "watch", "notify"}
    again = declared_spec(spec.source, kept)
    assert again is not None
    assert again.model_dump(include=set(kept)) == spec.model_dump(include=set(kept))
    assert again.source == spec.source
    assert declared_spec(spec.source, {**kept, "lag": {"of": "another version"}}) is None


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
