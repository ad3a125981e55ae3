"""Whether the release before can still read what the checkpoint has become: one answer for plan and foresight."""

from __future__ import annotations

from dataclasses import replace

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.foresee import foresee
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.roll_back import no_way_back, roll_back
from airflow_stream_provider.planning.steps import Append, GiveUp, TaskIdentity
from tests.support.snapshots import snapshot
from tests.support.story import HANDED_OVER, NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, PREPARED

SEEN = "The query lines writes commits/ in format v2 instead of v1."
ME = TaskIdentity("d", "r", "roll_back")


def seen_by(driver: str, records: list[Record]) -> list[Record]:
    """Return a story in which a driver's rehearsal has seen that there is no way back."""

    def told(each: Record) -> Record:
        standby = each.kind == "standby" and each["incarnation"] == driver
        return replace(each, fields={**each.fields, "rehearsal": {"one_way": [SEEN]}}) if standby else each

    return [told(each) for each in records]


def test_there_is_a_way_back_unless_a_rehearsal_has_seen_otherwise() -> None:
    assert no_way_back(snapshot(*HANDED_OVER), NEW_DEPLOYMENT) == ""
    assert no_way_back(snapshot(*seen_by(OLD, HANDED_OVER)), NEW_DEPLOYMENT) == "", "that was a release before"
    assert no_way_back(snapshot(*seen_by(NEW, PREPARED)), NEW_DEPLOYMENT) == "", "it has never held"
    said = no_way_back(snapshot(*seen_by(NEW, HANDED_OVER)), NEW_DEPLOYMENT)
    assert said.startswith(f"There is no way back from release 1 ({NEW_DEPLOYMENT}): {SEEN}")


def test_what_only_a_later_rehearsal_has_seen_is_in_the_heartbeat() -> None:
    beats = {NEW: Heartbeat(rehearsal={"one_way": [SEEN, 1]})}
    assert SEEN in no_way_back(replace(snapshot(*HANDED_OVER), heartbeats=beats), NEW_DEPLOYMENT)
    assert no_way_back(replace(snapshot(*HANDED_OVER), heartbeats={NEW: Heartbeat()}), NEW_DEPLOYMENT) == ""
    forged = {NEW: Heartbeat(rehearsal={"one_way": "everything"})}
    assert no_way_back(replace(snapshot(*HANDED_OVER), heartbeats=forged), NEW_DEPLOYMENT) == ""


def test_the_plan_of_a_roll_back_gives_up_and_leaves_who_holds() -> None:
    look = snapshot(*seen_by(NEW, HANDED_OVER))
    step = roll_back(look, ME, NEW_DEPLOYMENT, None, "it is bad")
    assert isinstance(step, GiveUp)
    assert isinstance(step.error, HandOverFailed)
    assert SEEN in str(step.error)
    assert f"{NEW_DEPLOYMENT} (release 1) holds the stream" in str(step.error)
    assert isinstance(roll_back(snapshot(*HANDED_OVER), ME, NEW_DEPLOYMENT, None, "it is bad"), Append)


def test_so_does_everybody_who_asks_whether_it_can_be_rolled_back() -> None:
    found = foresee(snapshot(*seen_by(NEW, HANDED_OVER)), Operation.ROLL_BACK)
    assert found.refused.startswith("There is no way back from release 1")
    assert "its rehearsal says whether it can read the checkpoint" in found.refused
    assert found.parts == ()
    assert OLD_DEPLOYMENT in " ".join(foresee(snapshot(*HANDED_OVER), Operation.ROLL_BACK).will)
