"""What runs leave behind in a whole Airflow: a note, events for other DAGs, and no standby when they are cancelled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.ids import deployment_of
from devstack.drivers import wait_for
from tests.support.fleet import Fleet, Member, fleet_of

FOLLOWER = """\
from airflow.sdk import DAG, task

from airflow_stream_provider.operators.base import stream_asset

asset = stream_asset("followed")
with DAG("follower", schedule=[asset], is_paused_upon_creation=False):

    @task
    def note(triggering_asset_events=None):
        return [event.extra for event in triggering_asset_events[asset]]

    note()
"""
pytestmark = pytest.mark.system  # a whole Airflow, and many minutes
# The moment at which a person marks the run as failed: this task is in this state.
MOMENTS = {
    "submits": ("submit", "deferred"),
    "rehearses": ("submit", "deferred"),
    "asks": ("approve", "deferred"),
    "hands-over": ("hand_over", "deferred"),
    "soaks": ("soak", "deferred"),
}


def told(folder: Path) -> dict[str, Any]:
    recipient = {"call": "tests.support.slow_recipient.page", "arguments": {"folder": str(folder)}}
    return {"more": f"notify: [{json.dumps(recipient)}]\n"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("real_runs")
    # So that it does not hang, as it does for the first one whom it tells.
    (folder / "hung").touch()
    members = [
        Member("followed", **told(folder)),
        Member("submits"),
        Member("rehearses", behaviour="slow"),
        Member("asks", more="  approval: true\n"),
        # Its holder never comes to a boundary, so that the hand-over takes its three seconds.
        Member("hands-over", first="deaf"),
        Member("soaks", soak="60s"),
    ]
    with fleet_of(members, folder, {"follower.py": FOLLOWER}) as found:
        yield found


def follower_runs(fleet: Fleet) -> list[str]:
    found = fleet.api.call("GET", "dags/follower/dagRuns", limit=100, order_by="start_date")["dag_runs"]
    return [run["state"] for run in found]


def note(fleet: Fleet, member: Member) -> str:
    return str(fleet.api.call("GET", f"dags/{member.dag}/dagRuns/{member.run}")["note"])


def test_other_dags_follow_each_hand_over_once_and_the_note_says_what_was_done(fleet: Fleet) -> None:
    member = fleet.members["followed"]
    fleet.api.wait_for_dag("follower")
    fleet.trigger(member, "upgrade", version="2")
    fleet.wait_for_runs([member])
    assert fleet.state(member) == "success"
    wait_for("the follower", lambda: follower_runs(fleet) == ["success"])
    events = fleet.api.call("GET", "assets/events")["asset_events"]
    [event] = events
    state = member.world.state
    assert event["uri"] == "stream://followed/"  # as Airflow writes it
    said = {name: event["extra"][name] for name in ("stream", "deployment", "version", "holder", "epoch")}
    assert said == {
        "stream": "followed",
        "deployment": deployment_of(state.holder or ""),
        "version": "2",
        "holder": state.holder,
        "epoch": 2,
    }
    assert event["extra"]["gap_seconds"].keys() == {"enrich", "totals"}
    wait_for("the note", lambda: note(fleet, member).startswith("Outcome: "))
    text = note(fleet, member)
    assert "Release 2 has taken over from release 1. Gap: enrich " in text
    assert "Nothing lost, nothing doubled" in text
    assert "Release 1 stays warm until about " in text

    # A task that is cleared finds its work done: it succeeds, and no event says so again.
    before = fleet.tasks()[member.dag, member.run, "hand_over"].tries
    fleet.api.clear(member.dag, member.run, ["hand_over"], downstream=False)
    wait_for("another try", lambda: fleet.tasks()[member.dag, member.run, "hand_over"].tries > before)
    fleet.wait_for_runs([member])
    assert fleet.state(member) == "success"
    assert len(fleet.api.call("GET", "assets/events")["asset_events"]) == 1

    fleet.trigger(member, "operate", operation="roll-back", reason="to see", ask=False)
    fleet.wait_for_runs([member])
    assert fleet.state(member) == "success"
    assert "Rolled back: to see." in note(fleet, member)
    wait_for("the follower", lambda: follower_runs(fleet) == ["success"] * 2)
    assert member.world.version == "1"
    member.world.assert_sound()

    heard = Path(member.world.folder.parent / "told.jsonl").read_text().splitlines()
    told_of = [json.loads(line) for line in heard]
    assert [(each["kind"], each["open"]) for each in told_of] == [("upgrade", False)] * 2, "of upgrade and roll-back"


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_that_is_cancelled_leaves_no_standby(fleet: Fleet, moment: str) -> None:
    task, state = MOMENTS[moment]
    member = fleet.members[moment]
    fleet.trigger(member, "upgrade", version="2")
    at = (member.dag, member.run, task)
    wait_for(f"{task} to be {state}", lambda: at in fleet.tasks() and fleet.tasks()[at].state == state, 300)
    if moment == "rehearses":
        wait_for("its driver", lambda: len(member.world.drivers()) == 2)
    fleet.cancel(member)

    # It is running again while its teardowns run.
    wait_for("what cleans up", lambda: fleet.tasks()[member.dag, member.run, "report"].state == "failed", 300)
    fleet.wait_for_runs([member])
    assert fleet.state(member) == "failed"
    held = member.world.version
    # A release that holds by then stays, and the one before it is warm for a roll-back.
    left = 1 if held == "1" else 2
    wait_for("the standby's end", lambda: len(member.world.drivers()) == left)
    assert held == "1" or moment in ("hands-over", "soaks")
    member.world.assert_sound()
