"""The story of two drivers of which one is older, or of an older Airflow: a hand-over, a roll-back and another one.

The drivers are agents without Spark, in the processes of `tests.support.other_side`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stand_by import declare_again
from tests.support.other_side import OtherSide
from tests.support.recorded import check_meaning, check_written_record
from tests.support.story import hash_of

ONE, TWO, THREE = "orders-1-0-1a2b3c4d", "orders-2-0-5e6f7a8b", "orders-1-0-90ab12cd"
# So many turns are enough for a driver to do what is asked of it.
TURNS = 8

Start = Callable[[str], OtherSide]
"""Starts a process of a version, `older` or `newer`, on the log."""

# Who is older: the first driver under a newer Airflow, the second one, or Airflow itself with both.
VERSIONS = [("newer", "older", "newer"), ("newer", "newer", "older"), ("older", "newer", "newer")]


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


def hand_over_and_back(log: ControlLog, side: Start, airflow: str, one: str, two: str) -> None:
    """Let two drivers hand over and back, and check that both sides see the same.

    :param airflow: version of the Airflow side, and `one`, `two` those of the drivers.
    """
    sides = {version: side(version) for version in {airflow, one, two}}
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
    check_meaning(side("older")("state"), side("newer")("state"))
    log.store.put_saved_state(b"")
    check_meaning(side("older")("state"), side("newer")("state"))
    assert log.refresh().illegal_count == 0
    assert [r["boundary"] for r in log.records() if r.kind == "released"] == ["completed"] * 4
    for record in log.records():
        check_written_record(record, made_up=("release", "policy", "queries", "rehearsal"))
