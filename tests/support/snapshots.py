"""Snapshots of a small stream after these records, for the tests of plans and of what is waited for."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rules import check
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Step, TaskIdentity
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


def up(name: str) -> list[Record]:
    deployment = deployment_of(name)
    return [declared(deployment), submitted(deployment), standby(name)]


RUNNING = [*up(OLD), requested("first", OLD, by="someone"), ready("first", OLD), acquired(OLD, "first", 1)]
BOTH = [*RUNNING, *up(NEW)]
ASKED = [*BOTH, requested("mine", NEW, by=ME.by)]
RELEASED = [*ASKED, ready("mine", NEW), released(OLD, "mine", NEW)]
UPGRADED = [*RELEASED, acquired(NEW, "mine", 2)]


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
