"""What the control log means: `state = fold(records)`, pure. Nothing else is ever stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from airflow_stream_provider.model.errors import StreamError
from airflow_stream_provider.model.record import Boundary, Record
from airflow_stream_provider.model.state import (
    Deployment,
    Incarnation,
    IncarnationState,
    Request,
    RequestStage,
    StreamState,
)


def fold(records: Iterable[Record], state: StreamState | None = None) -> StreamState:
    """Return the state after these records, starting from `state` (default: an empty log).

    Kinds that this version does not know only count.

    :raises StreamError: a record that no append would have let through.
    """
    state = state or StreamState()
    for record in records:
        apply = _APPLY.get(record.kind)
        try:
            state = replace(apply(state, record) if apply else state, seq=record.seq)
        except (KeyError, ValueError, TypeError) as error:
            raise StreamError(
                f"Record {record.seq} of the control log ({record.kind!r}) cannot follow those before it: {error!r}.",
                todo="Was it edited by hand, or written by a newer version? Restore it, or upgrade this one.",
                seq=record.seq,
            ) from error
    return state


def _incarnation(before: StreamState, name: str, **changes: Any) -> StreamState:
    changed = replace(before.incarnations[name], **changes)
    return replace(before, incarnations={**before.incarnations, name: changed})


def _deployment(before: StreamState, name: str, **changes: Any) -> StreamState:
    changed = replace(before.deployments[name], **changes)
    return replace(before, deployments={**before.deployments, name: changed})


def _request(state: StreamState, name: str, stage: RequestStage) -> StreamState:
    return replace(state, requests={**state.requests, name: replace(state.requests[name], stage=stage)})


def _free(state: StreamState, name: str, how: str) -> StreamState:
    """Nobody holds from here on, if `name` did. Whoever asked for a stop has got it, however it came about."""
    if state.holder != name:
        return state
    request = state.open_request
    if request is not None and request.to is None:
        state, how = _request(state, request.id, RequestStage.DONE), "stopped"
    return replace(state, holder=None, last_end=how)


def _declared(state: StreamState, r: Record) -> StreamState:
    new = Deployment(
        id=r["deployment"],
        release=r["release"],
        declared_at=r.at,
        policy=r.get("policy", {}),
        reason=r.get("reason", ""),
    )
    return replace(state, deployments={**state.deployments, new.id: new})


def _submitted(state: StreamState, r: Record) -> StreamState:
    return _deployment(state, r["deployment"], submission=r["submission"], cluster=r.get("cluster", ""))


def _standby(state: StreamState, r: Record) -> StreamState:
    new = Incarnation(
        id=r["incarnation"],
        deployment=r["deployment"],
        state=IncarnationState.STANDBY,
        queries=tuple(r.get("queries", ())),
        rehearsal=r.get("rehearsal", {}),
    )
    return replace(state, incarnations={**state.incarnations, new.id: new})


def _requested(state: StreamState, r: Record) -> StreamState:
    new = Request(
        id=r["id"],
        to=r.get("to"),
        source=state.holder,
        expires=r["expires"],
        stage=RequestStage.REQUESTED,
        by=r.by,
        reason=r.get("reason", ""),
    )
    return replace(state, requests={**state.requests, new.id: new})


def _ready(state: StreamState, r: Record) -> StreamState:
    return _request(state, r["id"], RequestStage.READY)


def _released(state: StreamState, r: Record) -> StreamState:
    name = r["incarnation"]
    completed = r["boundary"] == Boundary.COMPLETED.value
    after = IncarnationState.STANDBY if completed else IncarnationState.INTERRUPTED
    state = _free(_incarnation(state, name, state=after), name, "released")
    return state if r.get("to") is None else _request(state, r["id"], RequestStage.RELEASED)


def _acquired(state: StreamState, r: Record) -> StreamState:
    name, epoch = r["incarnation"], r["epoch"]
    stage = RequestStage.DONE if state.requests[r["id"]].to == name else RequestStage.TAKEN_BACK
    state = _incarnation(_request(state, r["id"], stage), name, state=IncarnationState.HOLDER, epoch=epoch)
    return replace(state, holder=name, last_holder=name, last_end="", epoch=epoch)


def _fenced(state: StreamState, r: Record) -> StreamState:
    state = _incarnation(state, r["incarnation"], state=IncarnationState.FENCED, reason=r["reason"])
    return _free(state, r["incarnation"], "fenced")


def _aborted(state: StreamState, r: Record) -> StreamState:
    return _request(state, r["id"], RequestStage.ABORTED)


def _failed(state: StreamState, r: Record) -> StreamState:
    name, deployment = r.get("incarnation"), r["deployment"]
    held = name is not None and state.holder == name
    if name is not None:
        if name not in state.incarnations:  # refused in its rehearsal
            state = _standby(state, r)
        interrupted = r.get("boundary") == Boundary.INTERRUPTED.value
        after = IncarnationState.INTERRUPTED if interrupted else IncarnationState.FAILED
        state = _free(_incarnation(state, name, state=after, reason=r["reason"]), name, "failed")
    if not held and any(not i.state.terminal for i in state.of_deployment(deployment)):
        return state  # a relaunched twin failed beside another driver: the deployment lives on
    return _deployment(state, deployment, ended="failed", reason=r["reason"])


def _finished(state: StreamState, r: Record) -> StreamState:
    name = r["incarnation"]
    state = _free(_incarnation(state, name, state=IncarnationState.FINISHED), name, "finished")
    return _deployment(state, state.incarnations[name].deployment, ended="finished")


def _retired(state: StreamState, r: Record) -> StreamState:
    for incarnation in state.of_deployment(r["deployment"]):
        if incarnation.state is IncarnationState.STANDBY:
            state = _incarnation(state, incarnation.id, state=IncarnationState.RETIRED)
    return _deployment(state, r["deployment"], ended="retired", reason=r.get("reason", ""))


_APPLY = {
    "declared": _declared,
    "submitted": _submitted,
    "standby": _standby,
    "requested": _requested,
    "ready": _ready,
    "released": _released,
    "acquired": _acquired,
    "fenced": _fenced,
    "aborted": _aborted,
    "failed": _failed,
    "finished": _finished,
    "retired": _retired,
}
