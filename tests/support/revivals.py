"""Runs that bring a stream back: one step of the last one, and what those before it have left in the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.recover import recover
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.planning.waits import WaitOutcome
from tests.support.snapshots import snapshot
from tests.support.story import (
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    RUNNING,
    acquired,
    declared_again,
    failed,
    fenced,
    hash_of,
    ready,
    requested,
    standby,
    submitted,
)

ME = TaskIdentity("streams__revive", "run", "revive")
DOWN = [*RUNNING, fenced(OLD), failed(None, OLD_DEPLOYMENT)]
AGAIN = ME.deployment("orders", "1")


def take(
    *records: Record, outcome: WaitOutcome | None = None, before: dict[str, int] | None = None, **fields: Any
) -> Any:
    beats = fields.pop("counters", {})
    found = replace(snapshot(*records, **fields), heartbeats={name: Heartbeat(counter=n) for name, n in beats.items()})
    return recover(found, ME, outcome, before or {})


def again(at: float = 100.0, deployment: str = AGAIN, run: str = "run") -> Record:
    return declared_again(deployment, OLD_DEPLOYMENT, by=f"airflow:streams__revive/{run}/revive", at=at)


def held(number: int, at: float) -> list[Record]:
    """A try of the watch that came to hold and was killed."""
    deployment = TaskIdentity("streams__revive", f"r{number}", "revive").deployment("orders", "1")
    name, ask = f"{deployment}.0000000a", f"try {number}"
    up = replace(standby(name), fields={**standby(name).fields, "queries": [{"name": "a"}, {"name": "b"}]})
    began = [again(at, deployment, f"r{number}"), submitted(deployment), up, requested(ask, name), ready(ask, name)]
    return [*began, acquired(name, ask, 2 + number), fenced(name), failed(None, deployment)]


def failing(tries: int) -> list[Record]:
    """Tries of the new release that come to hold and fail before they have committed anything."""
    story: list[Record] = []
    for number in range(tries):
        release = {"version": "2", "hash": hash_of(NEW_DEPLOYMENT)}
        tried, *more, acquires, _killed, _ended = held(1 + number, 200.0)
        tried = replace(tried, fields={**tried.fields, "release": release})
        story += [tried, *more, acquires, failed(acquires["incarnation"], committed=False)]
    return story
