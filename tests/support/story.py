"""Records of a small stream, and how to play them: every one is checked before it is folded, as in an append."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rules import check
from airflow_stream_provider.lifecycle.state import StreamState

OLD, NEW, TWIN = "orders-1-aaaa.00000001", "orders-2-bbbb.00000002", "orders-2-bbbb.00000003"
OLD_DEPLOYMENT, NEW_DEPLOYMENT = deployment_of(OLD), deployment_of(NEW)


def play(records: Iterable[Record], state: StreamState | None = None) -> StreamState:
    state = state or StreamState()
    for record in records:
        check(state, record)
        state = fold([record.numbered(state.seq + 1)], state)
    return state


def write(log: ControlLog, *records: Record) -> None:
    """Append these to a real log."""
    for one in records:
        log.append(one, log.refresh().seq)


def record(kind: str, *, by: str = "test", at: float = 100.0, **fields: Any) -> Record:
    return Record(kind=kind, fields=fields, by=by, at=at)


def hash_of(name: str) -> str:
    """The hash of a release that differs for every name."""
    return hashlib.sha256(name.encode()).hexdigest()


def wanted(id: str, goal: str = "hold", *, by: str = "airflow", at: float = 100.0, **fields: Any) -> Record:
    """A wish. One for a driver brings a release in, unless it names the family of one that did."""
    if goal in ("hold", "stand_by") and "family" not in fields:
        fields = {"release": {"version": "1", "hash": hash_of(id)}, "policy": {}, **fields}
    return record("wanted", by=by, at=at, **{"wish": id, "goal": goal, "reason": "a person wants it", **fields})


def declared(deployment: str, family: str = "", **more: Any) -> Record:
    release = {"version": "1", "hash": hash_of(deployment)}
    fields = {"deployment": deployment, "release": release, "policy": {}, "reason": "", **more}
    return record("declared", **{**fields, **({"family": family} if family else {})})


def declared_again(
    deployment: str, of: str, *, version: str = "1", by: str = "test", at: float = 100.0, **more: Any
) -> Record:
    """A deployment of the release of another one, by the watch or a roll-back."""
    release = {"version": version, "hash": hash_of(of)}
    fields = {"deployment": deployment, "release": release, "policy": {}, "again": of, "reason": "", **more}
    return record("declared", by=by, at=at, **fields)


def following(deployment: str, family: str = "") -> Record:
    """A deployment that is to follow a job without a stream."""
    return declared(deployment, family, policy={"adopts": True})


def ending(deployment: str, job: str = "driver-1", *, expires: float = 160.0) -> Record:
    return record("ending", deployment=deployment, job=job, expires=expires, reason="a person wants it")


def submitted(deployment: str) -> Record:
    return record("submitted", deployment=deployment, submission=f"driver-{deployment}", cluster="spark_default")


def standby(name: str) -> Record:
    return record("standby", deployment=deployment_of(name), incarnation=name, queries=[{"name": "a"}], rehearsal={})


def requested(id: str, to: str | None, *, by: str = "airflow", expires: float = 200.0, **fields: Any) -> Record:
    return record("requested", by=by, request=id, to=to, expires=expires, reason="a person wants it", **fields)


def ready(id: str, name: str) -> Record:
    return record("ready", request=id, incarnation=name)


def released(name: str, id: str | None, to: str | None, boundary: str = "completed", **fields: Any) -> Record:
    ends = {"a": {"batch": 7}}
    return record("released", incarnation=name, request=id, to=to, boundary=boundary, ends=ends, **fields)


def acquired(name: str, id: str, epoch: int) -> Record:
    return record("acquired", incarnation=name, request=id, epoch=epoch)


def fencing(name: str, reason: str = "why") -> Record:
    return record("fencing", incarnation=name, reason=reason)


def fenced(name: str, reason: str = "dead", evidence: str = "the cluster says so", **fields: Any) -> Record:
    return record("fenced", incarnation=name, reason=reason, evidence=evidence, **fields)


def aborted(id: str, *, by: str = "somebody", at: float = 100.0, name: str | None = None) -> Record:
    return record("aborted", by=by, at=at, request=id, incarnation=name, reason="enough")


def failed(name: str | None, deployment: str | None = None, **fields: Any) -> Record:
    of = deployment or deployment_of(str(name))
    return record("failed", incarnation=name, deployment=of, reason="it broke", error="Boom", **fields)


def finished(name: str) -> Record:
    return record("finished", incarnation=name)


def retired(deployment: str) -> Record:
    return record("retired", deployment=deployment, reason="not needed")


# Where a story stands, as the records that lead there. OLD holds from RUNNING on.
STARTED = [declared(OLD_DEPLOYMENT), submitted(OLD_DEPLOYMENT), standby(OLD)]
RUNNING = [*STARTED, requested("start", OLD), ready("start", OLD), acquired(OLD, "start", 1)]
PREPARED = [*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT), standby(NEW)]
REQUESTED = [*PREPARED, requested("up", NEW)]
READY = [*REQUESTED, ready("up", NEW)]
RELEASED = [*READY, released(OLD, "up", NEW)]
INTERRUPTED = [*READY, released(OLD, "up", NEW, "interrupted")]
HANDED_OVER = [*RELEASED, acquired(NEW, "up", 2)]
TAKEN_BACK = [*RELEASED, acquired(OLD, "up", 2)]
STOPPING = [*PREPARED, wanted("rest", "stop"), requested("stop", None, wish="rest")]
STOPPED = [*STOPPING, released(OLD, "stop", None)]
# An adoption: OLD is to follow a job; the job is about to be ended; it is gone, and OLD was asked.
FOLLOWING = [
    wanted("adopt", policy={"adopts": True}, adopts=True, job="driver-1"),
    following(OLD_DEPLOYMENT, "adopt"),
    submitted(OLD_DEPLOYMENT),
    standby(OLD),
]
JOB_ENDING = [*FOLLOWING, ending(OLD_DEPLOYMENT)]
JOB_GONE = [*JOB_ENDING, requested("adopt", OLD, wish="adopt", evidence={"job": "driver-1", "state": "killed"})]
