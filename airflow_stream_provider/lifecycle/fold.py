"""Fold the records of a control log into the state of its stream. The state itself is never stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Boundary, Kind, Record
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import (
    Deployment,
    DeploymentEnd,
    HoldEnd,
    Incarnation,
    IncarnationState,
    Request,
    RequestStage,
    StreamState,
)


def fold(records: Iterable[Record], state: StreamState | None = None) -> StreamState:
    """Return the state after these records.

    :param state: to start from; default: that of an empty log.
    :raises StreamError: a record cannot follow those before it. Records of unknown kinds are only counted.
    """
    draft = _Draft.of(state or StreamState())
    for record in records:
        apply = _APPLY.get(record.kind)
        try:
            if apply is not None:
                apply(draft, record)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise StreamError(
                f"Record {record.seq} of the control log ({record.kind!r}) cannot follow those before it: {error!r}.",
                next_step="If it was edited by hand, restore it; if a newer version wrote it, upgrade this one.",
                seq=record.seq,
            ) from error
        draft.seq = record.seq
    return StreamState(**vars(draft))


@dataclass
class _Draft:
    """A state under construction. Its dicts are changed in place, so a long log is not copied for every record."""

    seq: int
    epoch: int
    holder: str | None
    deployments: dict[str, Deployment]
    incarnations: dict[str, Incarnation]
    requests: dict[str, Request]
    last_holder: str | None
    last_end: HoldEnd | None

    @classmethod
    def of(cls, state: StreamState) -> _Draft:
        copies = {name: dict(getattr(state, name)) for name in ("deployments", "incarnations", "requests")}
        return cls(**{**vars(state), **copies})

    def deployment(self, name: str, **changes: Any) -> None:
        self.deployments[name] = replace(self.deployments[name], **changes)

    def incarnation(self, name: str, state: IncarnationState, **changes: Any) -> None:
        self.incarnations[name] = replace(self.incarnations[name], state=state, **changes)

    def request(self, name: str, stage: RequestStage) -> None:
        self.requests[name] = replace(self.requests[name], stage=stage)

    def free(self, name: str, how: HoldEnd) -> None:
        """If `name` held, nobody holds from here on. An open request to stop is then done, whatever ended the hold."""
        if self.holder != name:
            return
        self.holder, self.last_end = None, how
        for request in list(self.requests.values())[-1:]:  # only the newest can be open
            if request.stage.open and request.to is None:
                self.request(request.id, RequestStage.DONE)
                self.last_end = HoldEnd.STOPPED


def _declared(draft: _Draft, r: Record) -> None:
    draft.deployments[r["deployment"]] = Deployment(
        id=r["deployment"],
        release=Release.from_json(r["release"]),
        declared_at=r.at,
        policy=Policy.from_json(r.get("policy", {})),
        reason=r.get("reason", ""),
    )


def _submitted(draft: _Draft, r: Record) -> None:
    draft.deployment(r["deployment"], submission=r["submission"], cluster=r.get("cluster", ""))


def _standby(draft: _Draft, r: Record) -> None:
    draft.incarnations[r["incarnation"]] = Incarnation(
        id=r["incarnation"],
        deployment=r["deployment"],
        state=IncarnationState.STANDBY,
        queries=tuple(r.get("queries", ())),
        rehearsal=r.get("rehearsal", {}),
    )


def _requested(draft: _Draft, r: Record) -> None:
    draft.requests[r["request"]] = Request(
        id=r["request"],
        to=r.get("to"),
        source=draft.holder,
        expires=r["expires"],
        stage=RequestStage.REQUESTED,
        by=r.by,
        reason=r.get("reason", ""),
    )


def _ready(draft: _Draft, r: Record) -> None:
    draft.request(r["request"], RequestStage.READY)


def _released(draft: _Draft, r: Record) -> None:
    completed = r["boundary"] == Boundary.COMPLETED.value
    draft.incarnation(r["incarnation"], IncarnationState.STANDBY if completed else IncarnationState.INTERRUPTED)
    draft.free(r["incarnation"], HoldEnd.RELEASED)
    if r.get("to") is not None:
        draft.request(r["request"], RequestStage.RELEASED)


def _acquired(draft: _Draft, r: Record) -> None:
    name = r["incarnation"]
    appointed = draft.requests[r["request"]].to == name
    draft.request(r["request"], RequestStage.DONE if appointed else RequestStage.TAKEN_BACK)
    draft.incarnation(name, IncarnationState.HOLDER, epoch=r["epoch"])
    draft.holder = draft.last_holder = name
    draft.last_end, draft.epoch = None, r["epoch"]


def _fenced(draft: _Draft, r: Record) -> None:
    draft.incarnation(r["incarnation"], IncarnationState.FENCED, reason=r["reason"])
    draft.free(r["incarnation"], HoldEnd.FENCED)


def _aborted(draft: _Draft, r: Record) -> None:
    draft.request(r["request"], RequestStage.ABORTED)


def _failed(draft: _Draft, r: Record) -> None:
    name, deployment = r.get("incarnation"), r["deployment"]
    held = name is not None and draft.holder == name
    if name is not None:
        if name not in draft.incarnations:  # refused in its rehearsal
            _standby(draft, r)
        interrupted = r.get("boundary") == Boundary.INTERRUPTED.value
        after = IncarnationState.INTERRUPTED if interrupted else IncarnationState.FAILED
        draft.incarnation(name, after, reason=r["reason"])
        draft.free(name, HoldEnd.FAILED)
    twins = (i for i in draft.incarnations.values() if i.deployment == deployment)
    if held or all(twin.state.terminal for twin in twins):
        draft.deployment(deployment, ended=DeploymentEnd.FAILED, reason=r["reason"])
    # Otherwise a relaunched twin failed beside another driver: the deployment lives on.


def _finished(draft: _Draft, r: Record) -> None:
    name = r["incarnation"]
    draft.incarnation(name, IncarnationState.FINISHED)
    draft.free(name, HoldEnd.FINISHED)
    draft.deployment(draft.incarnations[name].deployment, ended=DeploymentEnd.FINISHED)


def _retired(draft: _Draft, r: Record) -> None:
    for twin in list(draft.incarnations.values()):
        if twin.deployment == r["deployment"] and twin.state is IncarnationState.STANDBY:
            draft.incarnation(twin.id, IncarnationState.RETIRED)
    draft.deployment(r["deployment"], ended=DeploymentEnd.RETIRED, reason=r.get("reason", ""))


_APPLY = {
    Kind.DECLARED: _declared,
    Kind.SUBMITTED: _submitted,
    Kind.STANDBY: _standby,
    Kind.REQUESTED: _requested,
    Kind.READY: _ready,
    Kind.RELEASED: _released,
    Kind.ACQUIRED: _acquired,
    Kind.FENCED: _fenced,
    Kind.ABORTED: _aborted,
    Kind.FAILED: _failed,
    Kind.FINISHED: _finished,
    Kind.RETIRED: _retired,
}
