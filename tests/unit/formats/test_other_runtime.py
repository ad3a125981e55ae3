"""A runtime of format 1 and today's, each in a process of its own, on one control log: deploy, hand over, roll back.

The drivers are agents without Spark; tests/integration/runtime/test_versions.py has real ones.
"""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.releases import RUNTIME_ZIP, publish, verify
from airflow_stream_provider.lifecycle.formats import FORMAT_OF
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stand_by import declare_again
from devstack.control_folder import folder_of
from tests.support.control_root import new_log
from tests.support.older_release import older_runtime
from tests.support.other_side import OLDER, OtherSide, side
from tests.support.recorded import WHAT_TO_DO, check_meaning, check_written_record, value
from tests.support.story import hash_of

__all__ = ["side"]

ONE, TWO, THREE = "orders-1-0-1a2b3c4d", "orders-2-0-5e6f7a8b", "orders-1-0-90ab12cd"
# So many turns are enough for a driver to do what is asked of it.
TURNS = 8

Start = Callable[[str, str], OtherSide]


def release(version: str) -> dict[str, Any]:
    # As a later version may write it: with fields that nobody knows here.
    return {"version": version, "hash": hash_of(version), "application": "orders.py", "of_next_year": 1}


class World:
    """A control log, an Airflow side, and drivers of two versions.

    :param airflow: whose appends count as those of tasks.
    :param one: in whose process the first driver runs, and `two` the second one.
    """

    def __init__(self, airflow: OtherSide, one: OtherSide, two: OtherSide) -> None:
        self.airflow = airflow
        self._sides = {ONE: one, TWO: two, THREE: one}
        self._drivers: list[tuple[OtherSide, str]] = []
        self._requests = 0

    def deploy(self, deployment: str, **fields: Any) -> str:
        """Declare, submit and start a driver; return its incarnation once it stands by."""
        fields = {"release": release(deployment), "policy": {}, "reason": "test", **fields}
        self.airflow.append("declared", deployment=deployment, **fields)
        self.airflow.append("submitted", deployment=deployment, submission=f"driver-{deployment}", cluster="")
        incarnation = f"{deployment}.0000000a"
        self._sides[deployment]("driver", incarnation=incarnation)
        self._drivers.append((self._sides[deployment], incarnation))
        self.turns()
        assert self.state["incarnations"][incarnation]["state"] == "standby"
        return incarnation

    def ask(self, to: str | None) -> None:
        """Request that a driver holds, or a stop."""
        self._requests += 1
        expires = time.time() + 600.0
        self.airflow.append("requested", request=f"{self._requests:016x}", to=to, expires=expires, reason="test")
        self.turns()

    def turns(self) -> list[int | None]:
        """Let every driver take its turns; return what they have exited with."""
        for _ in range(TURNS):
            codes = [side("turn", incarnation=name) for side, name in self._drivers]
        return codes

    @property
    def state(self) -> Any:
        return self.airflow("state")


@pytest.fixture
def log(tmp_path: Path) -> ControlLog:
    return new_log((tmp_path / "control").as_uri())


# Who is older: the first driver under a newer Airflow, the second one, or Airflow itself with both.
VERSIONS = [("newer", "older", "newer"), ("newer", "newer", "older"), ("older", "newer", "newer")]


@pytest.mark.parametrize(("airflow", "one", "two"), VERSIONS)
def test_two_drivers_hand_over_and_back_and_both_sides_see_the_same(
    log: ControlLog, side: Start, airflow: str, one: str, two: str
) -> None:
    url = folder_of(log).parent.as_uri()
    sides = {version: side(version, url) for version in {airflow, one, two}}
    world = World(sides[airflow], sides[one], sides[two])
    first = world.deploy(ONE)
    world.ask(first)
    second = world.deploy(TWO)
    world.ask(second)
    assert (world.state["holder"], world.state["phase"]) == (second, "running")
    # Rolled back to, warm.
    world.ask(first)
    assert (world.state["holder"], world.state["epoch"]) == (first, 3)
    beats = world.airflow("heartbeats")
    assert {name: beat["phase"] for name, beat in beats.items()} == {first: "running", second: "standby"}
    (query,) = beats[first]["queries"]
    assert query["committed"] == [{"orders-in": {"0": query["batch"]}}]
    ends = world.state["requests"]["0000000000000003"]["ends"]["out"]
    assert ends["batch"] < query["batch"], "it went on where the other one had stopped"

    # Rolled back to, cold: its release is declared again, as Airflow copies it from the record.
    world.airflow("save")
    snapshot = Snapshot("orders", time.time(), log.refresh(), log.history())
    again = declare_again(snapshot, THREE, ONE, "rolled back", instead_of=TWO)
    assert again.fields["release"] == release(ONE)
    third = world.deploy(**again.fields)
    world.ask(third)
    world.airflow.append("retired", deployment=ONE, reason="not needed")
    world.airflow.append("retired", deployment=TWO, reason="not needed")
    assert world.turns() == [0, 0, None], "the two that were retired have exited"
    world.ask(None)
    assert world.state["phase"] == "stopped"

    # One log, one meaning; for whoever reads it from its first record, too, or from the state that the other saved.
    check_meaning(side("older", url)("state"), side("newer", url)("state"))
    (folder_of(log) / "state.jsonl").unlink()
    check_meaning(side("older", url)("state"), side("newer", url)("state"))
    assert log.refresh().illegal_count == 0
    assert [r["boundary"] for r in log.records() if r.kind == "released"] == ["completed"] * 4
    for record in log.records():
        check_written_record(record, made_up=("release", "policy", "queries", "rehearsal"))


@pytest.mark.parametrize("version", ["older", "newer"])
def test_the_options_that_a_launcher_gets_are_known_to_it(log: ControlLog, side: Start, version: str) -> None:
    """Today's Airflow submits an older release with the launcher that was published with it."""
    launcher = side(version, folder_of(log).parent.as_uri())
    for arguments in value("launcher.json"):
        found = launcher("launcher", arguments=arguments)
        assert (found["stream"], found["script"]) == ("orders", "orders.py"), WHAT_TO_DO


def test_an_older_release_is_published_as_it_was(log: ControlLog, tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text("")
    with older_runtime():
        older = publish(folder_of(log), version="1", application=tmp_path / "orders.py")
    assert (older.folder(folder_of(log)) / RUNTIME_ZIP).read_bytes() == OLDER.read_bytes()
    verify(older.folder(folder_of(log)), older)
    assert "format" not in older.to_json()


def test_the_recorded_runtime_knows_every_kind_of_its_format() -> None:
    with zipfile.ZipFile(OLDER) as archive:
        record = archive.read("airflow_stream_provider/lifecycle/record.py").decode()
        packages = {name.split("/")[1] for name in archive.namelist()}
    assert packages == {"__init__.py", "lifecycle", "control", "checkpoint", "runtime"}
    assert all(f'= "{kind}"' in record for kind, format in FORMAT_OF.items() if format == 1)
