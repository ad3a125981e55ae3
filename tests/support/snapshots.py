"""Snapshots of a small stream after these records, for the tests of plans and of what is waited for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rules import check
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.steps import Append, Declare, Done, GiveUp, Kill, Step, TaskIdentity, Wait, Want
from tests.support.story import (
    NEW,
    OLD,
    acquired,
    declared,
    ready,
    released,
    requested,
    standby,
    submitted,
    wanted,
)

ME = TaskIdentity("dag", "run", "hand_over")
BACK = TaskIdentity("dag", "run", "roll_back")


def snapshot(*records: Record, drivers: dict[str, DriverFacts] | None = None, at: float = 110.0) -> Snapshot:
    numbered: list[Record] = []
    state = fold([])
    for one in records:
        check(state, one)
        numbered.append(one.numbered(state.seq + 1))
        state = fold(numbered[-1:], state)
    return Snapshot("orders", at, state, tuple(numbered), {}, drivers or {})


def scene(*records: Record, at: float = 110.0, drivers: dict[str, DriverFacts] | None = None, **more: Any) -> Scene:
    """What a task, or the watch, goes by. `me` and `lives` as in `Scene`."""
    return Scene(snapshot(*records, at=at, drivers=drivers), **{"me": ME, **more})


def up(name: str, family: str = "") -> list[Record]:
    deployment = deployment_of(name)
    return [declared(deployment, family), submitted(deployment), standby(name)]


# OLD serves the wishes of the family `old`, NEW those of `new`.
RUNNING = [
    wanted("old"),
    *up(OLD, "old"),
    requested("first", OLD, by="someone", wish="old"),
    ready("first", OLD),
    acquired(OLD, "first", 1),
]
BOTH = [*RUNNING, wanted("new", "stand_by"), *up(NEW, "new")]
WISHED = [*BOTH, wanted("take", family="new", approved="it was judged")]
ASKED = [*WISHED, requested("mine", NEW, by=ME.by, wish="take")]
RELEASED = [*ASKED, ready("mine", NEW), released(OLD, "mine", NEW)]
UPGRADED = [*RELEASED, acquired(NEW, "mine", 2)]
STOPPED = [*RUNNING, wanted("rest", "stop"), requested("s", None, wish="rest"), released(OLD, "s", None)]


SEEN = "The query lines writes commits/ in format v2 instead of v1."


def seen_by(driver: str, records: list[Record], summary: Any = None) -> list[Record]:
    """Return a story in which a driver's rehearsal says this; default: that there is no way back."""

    def told(each: Record) -> Record:
        of_driver = each.kind == "standby" and each["incarnation"] == driver
        return replace(each, fields={**each.fields, "rehearsal": summary or {"one_way": [SEEN]}}) if of_driver else each

    return [told(each) for each in records]


def appended(step: Step | None, *names: str) -> tuple[Any, ...]:
    """The kind of the record that a step appends, and these of its fields."""
    assert isinstance(step, Append), step
    return (step.kind, *(step.fields[name] for name in names))


def results(step: Step | None, *names: str) -> tuple[Any, ...]:
    """These of the results of a step that is the last one."""
    assert isinstance(step, Done), step
    return tuple(step.result[name] for name in names)


def given_up(step: Step | None) -> str:
    """The error that a step gives up with."""
    assert isinstance(step, GiveUp), step
    return str(step.error)


def brief(step: Step | None) -> str:
    """A step in a few words, for tables: what it is, and of whom; OLD and NEW by their names."""
    if step is None:
        return "nothing"
    if isinstance(step, Append):
        of = next(step.fields[name] for name in ("incarnation", "to", "deployment", "request") if name in step.fields)
        said = f"{step.kind} {of}"
    elif isinstance(step, Want):
        flags = " ".join(name for name in ("alone", "back", "adopts", "approval") if step.fields.get(name))
        of = "new" if step.publish else step.fields.get("family", "")
        said = f"want {step.fields['goal']} {of} {flags}"
    elif isinstance(step, Declare):
        said = f"declare {step.fields['family']}"
    elif isinstance(step, (Wait, Kill)):
        condition = step.condition if isinstance(step, Wait) else step.then
        said = f"{type(step).__name__.lower()} {type(condition).__name__}"
    else:
        said = f"{type(step).__name__.lower()} {getattr(step, 'deployment', getattr(step, 'job', ''))}"
    names = {OLD: "OLD", NEW: "NEW", deployment_of(OLD): "old", deployment_of(NEW): "new"}
    for name, short in names.items():
        said = said.replace(name, short)
    return said.strip()
