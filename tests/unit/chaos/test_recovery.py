"""When the stream counts as running again. The nemesis only says what lasts and what was healed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.state import StreamState
from chaos.events import Events
from chaos.journal import Journal
from chaos.recovery import RECOVERY_SECONDS, Recovery
from devstack import checkpoint_trees as trees
from tests.support.control_root import new_log
from tests.support.pretended_webhdfs import PretendedWebHdfs, hdfs
from tests.support.story import OLD, RUNNING, play

__all__ = ["hdfs"]


class SaidByTheNemesis:
    def __init__(self, events: Events) -> None:
        self.events = events
        self.lasting = 0
        self.last_healed = 0.0
        self.last_fault = "1.1"
        self.excused: list[tuple[float, float]] = []

    @contextlib.contextmanager
    def quiet(self) -> Iterator[Events]:
        yield self.events


class Site:
    def __init__(self, folder: Path) -> None:
        events = Events(new_log((folder / "control").as_uri()))
        events.state, events.beats = play(RUNNING), {OLD: Heartbeat()}
        self.nemesis = SaidByTheNemesis(events)
        self.checkpoints = {query: folder / query for query in ("enrich", "totals")}
        for path in self.checkpoints.values():
            (path / "commits").mkdir(parents=True)
        self.journal = Journal(folder / "journal.jsonl")
        nemesis: Any = self.nemesis
        self.recovery = Recovery(nemesis, self.checkpoints, self.journal, lambda line: None)

    def commit(self, query: str, batch: int, at: float) -> None:
        path = self.checkpoints[query] / "commits" / str(batch)
        path.touch()
        os.utime(path, (at, at))

    def noted(self, what: str) -> list[dict[str, Any]]:
        return [entry for entry in self.journal.entries() if entry["what"] == what]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_without_a_fault_it_runs(site: Site) -> None:
    assert site.recovery.look()
    assert site.noted("recovered") == []


def test_it_runs_again_when_every_query_has_committed_since(site: Site) -> None:
    healed = site.nemesis.last_healed = time.time() - 10
    site.commit("enrich", 5, healed + 1)
    site.commit("totals", 4, healed - 1)
    assert not site.recovery.look()
    site.commit("totals", 5, healed + 2)
    assert site.recovery.look()
    assert site.recovery.look()
    (noted,) = site.noted("recovered")
    assert noted["fault"] == "1.1"
    assert 10 <= noted["seconds"] < 100


def test_it_does_not_run_without_a_living_holder_or_while_a_fault_lasts(site: Site) -> None:
    healed = site.nemesis.last_healed = time.time() - 10
    for query in site.checkpoints:
        site.commit(query, 5, healed + 1)
    site.nemesis.lasting = 1
    assert not site.recovery.look()
    site.nemesis.lasting = 0
    site.nemesis.events.beats = {}
    assert not site.recovery.look()
    site.nemesis.events.state = StreamState()
    assert not site.recovery.look()


def test_a_stream_that_stays_away_is_a_problem_once(site: Site) -> None:
    site.nemesis.last_healed = time.time() - RECOVERY_SECONDS - 1
    assert not site.recovery.look()
    assert not site.recovery.look()
    assert [entry["says"] for entry in site.noted("problem")] == [
        "The stream does not run 180 s after fault 1.1 was over."
    ]


def test_a_later_fault_begins_the_time_anew(site: Site) -> None:
    site.nemesis.last_healed = time.time() - 20
    for query in site.checkpoints:
        site.commit(query, 5, time.time() - 10)
    assert site.recovery.look()
    site.nemesis.last_healed = time.time() - 5
    assert not site.recovery.look()


def test_a_fault_that_ends_while_it_looks_is_not_passed_over(site: Site) -> None:
    class EndsNow(SaidByTheNemesis):
        """It ends its fault while it is asked whether one lasts, as a thread does that holds the lock."""

        @property
        def lasting(self) -> int:
            self.last_healed = time.time()
            return 0

        @lasting.setter
        def lasting(self, number: int) -> None:
            pass

    nemesis: Any = EndsNow(site.nemesis.events)
    assert not Recovery(nemesis, site.checkpoints, site.journal, lambda line: None).look()


def test_the_time_in_which_airflow_was_away_does_not_count(site: Site) -> None:
    site.nemesis.last_healed = healed = time.time() - RECOVERY_SECONDS - 1
    site.nemesis.excused = [(healed + 10, healed + 70)]
    assert not site.recovery.look()
    assert site.noted("problem") == []


def test_commits_on_a_pretended_hdfs_count_and_one_that_does_not_answer_has_none(
    site: Site, hdfs: PretendedWebHdfs
) -> None:
    nemesis: Any = site.nemesis
    places = {query: hdfs.place() / query for query in site.checkpoints}
    recovery = Recovery(nemesis, places, site.journal, lambda line: None)
    healed = site.nemesis.last_healed = time.time() - 10
    assert not recovery.look()
    for query in places:
        trees.commit(hdfs.folder / query, 5, at=healed + 1)
    hdfs.frozen.set()
    assert not recovery.look()
    hdfs.frozen.clear()
    assert recovery.look()
