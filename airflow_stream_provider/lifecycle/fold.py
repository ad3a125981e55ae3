"""Fold the records of a control log into the state of its stream."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_stream_provider.lifecycle.errors import RuleBroken, StreamError
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.proof import Proof
from airflow_stream_provider.lifecycle.record import Boundary, Kind, Record, evidence_of
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.rules import check
from airflow_stream_provider.lifecycle.saved_state import prune
from airflow_stream_provider.lifecycle.state import (
    Deployment,
    DeploymentEnd,
    HoldEnd,
    IllegalRecord,
    Incarnation,
    IncarnationState,
    Request,
    RequestStage,
    StreamState,
)
from airflow_stream_provider.lifecycle.wish import EndedJob, Goal, Wish

# So many illegal records are named; all are counted.
ILLEGAL_NAMED = 100


def fold(records: Iterable[Record], state: StreamState | None = None) -> StreamState:
    """Return the state after these records.

    A record that breaks a rule, or cannot be read, is counted and named in the state, and changes nothing else: it is
    in the log and stays there, but no process obeys it. Records of unknown kinds are only counted.

    :param state: to start from; default: that of an empty log.
    """
    state = state or StreamState()
    for record in records:
        try:
            state = follow(state, record)
        except RuleBroken as broken:
            kind = record.kind[:40].encode("ascii", "replace").decode()
            named = IllegalRecord(record.seq, re.sub(r"[^ -~]", "?", kind), broken.fields["rule"])
            carried = replace(
                state,
                seq=record.seq,
                nonce=record.nonce,
                illegal=(*state.illegal, named)[-ILLEGAL_NAMED:],
                illegal_count=state.illegal_count + 1,
            )
            state = prune(carried)
    return state


def follow(state: StreamState, record: Record) -> StreamState:
    """Return the state after one more record.

    :raises RuleBroken: it may not follow this state.
    """
    if record.previous not in ("", state.nonce):
        raise _broken(state, record, "chain", "it was written after another record than the one before it")
    check(state, record)
    draft = _Draft.of(state)
    apply = _APPLY.get(record.kind)
    try:
        if apply is not None:
            apply(draft, record)
    except (StreamError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise _broken(state, record, "sound-fields", f"it cannot be applied: {error!r}") from error
    draft.seq, draft.nonce, draft.at = record.seq, record.nonce, record.at
    if draft.holder != state.holder:
        draft.held_to = 0 if draft.holder else record.seq
    after = StreamState(**vars(draft))
    return prune(after)


def _broken(state: StreamState, record: Record, rule: str, why: str) -> RuleBroken:
    return RuleBroken(
        f"{record.kind!r} refused by rule {rule!r}: {why} (record {state.seq}).",
        next_step="Read the stream's status and decide again.",
        rule=rule,
        kind=record.kind,
        holder=state.holder,
    )


@dataclass
class _Draft:
    """A state under construction, with dicts of its own: a record that fails half-way leaves nothing behind."""

    seq: int
    epoch: int
    holder: str | None
    deployments: dict[str, Deployment]
    incarnations: dict[str, Incarnation]
    requests: dict[str, Request]
    last_holder: str | None
    last_end: HoldEnd | None
    nonce: str
    at: float
    illegal: tuple[IllegalRecord, ...]
    illegal_count: int
    forgotten: tuple[str, ...]
    ends: Mapping[str, Mapping[str, Any]]
    held_from: int
    held_to: int
    rewinder: str | None
    stood: Mapping[str, Mapping[str, Any]]
    job: EndedJob | None
    wish: Wish | None
    candidate: Wish | None
    wishes: dict[str, Wish]

    @classmethod
    def of(cls, state: StreamState) -> _Draft:
        copies = {name: dict(getattr(state, name)) for name in ("deployments", "incarnations", "requests", "wishes")}
        return cls(**{**vars(state), **copies})

    def deployment(self, name: str, **changes: Any) -> None:
        self.deployments[name] = replace(self.deployments[name], **changes)

    def end(self, name: str, how: DeploymentEnd, seq: int, **changes: Any) -> None:
        self.deployment(name, ended=how, ended_seq=seq, **changes)

    def incarnation(self, name: str, state: IncarnationState, **changes: Any) -> None:
        self.incarnations[name] = replace(self.incarnations[name], state=state, **changes)

    def request(self, name: str, stage: RequestStage, **changes: Any) -> None:
        self.requests[name] = replace(self.requests[name], stage=stage, **changes)

    def free(self, name: str, how: HoldEnd, r: Record, ends: Any = None) -> None:
        """If `name` held, the stream has no holder from here on. An open request to stop is then done, whatever ended
        the hold.
        """
        if self.holder != name:
            return
        found = self.incarnations[name]
        self.incarnations[name] = replace(found, proof=found.proof.after(r.kind, r.get("committed")))
        self.holder, self.last_end = None, how
        # One that lets go and names no query was told to end before it had started them.
        if name == self.rewinder and (ends or how is HoldEnd.FAILED or r.get("committed") is True):
            self.rewinder, self.stood = None, {}
        # No rule is about the `ends` of a failure: its author may have put anything there.
        self.ends = ends if isinstance(ends, dict) else {}
        for request in itertools.islice(reversed(self.requests.values()), 1):  # only the newest can be open
            if request.stage.open and request.to is None:
                self.request(request.id, RequestStage.DONE)
                if how is HoldEnd.FINISHED:  # it is to run all the same
                    self.last_end = HoldEnd.RELEASED
        if self.wish is not None and self.wish.goal.rest:
            self.last_end = HoldEnd.STOPPED


def _declared(draft: _Draft, r: Record) -> None:
    draft.deployments[r["deployment"]] = Deployment(
        id=r["deployment"],
        release=Release.from_json(r["release"]),
        declared=r,
        policy=Policy.from_json(r.get("policy") or {}),
        reason=r.get("reason") or "",
    )


def _submitted(draft: _Draft, r: Record) -> None:
    draft.deployment(r["deployment"], submission=r["submission"], cluster=r.get("cluster") or "")


def _standby(draft: _Draft, r: Record) -> None:
    draft.incarnations[r["incarnation"]] = Incarnation(
        id=r["incarnation"],
        deployment=r["deployment"],
        state=IncarnationState.STANDBY,
        queries=tuple(r.get("queries") or ()),
        rehearsal=r.get("rehearsal") or {},
        announced=r.seq,
    )


def _requested(draft: _Draft, r: Record) -> None:
    draft.requests[r["request"]] = Request(
        id=r["request"],
        to=r.get("to"),
        source=draft.holder,
        expires=r["expires"],
        stage=RequestStage.REQUESTED,
        by=r.by,
        reason=r.get("reason") or "",
        wish=r.get("wish") or "",
    )
    gone = evidence_of(r)
    if r.get("to") is not None and draft.holder is None and gone:
        deployment, known = deployment_of(r["to"]), draft.job
        if known is None or (draft.deployments[deployment].adopts and known.deployment != deployment):
            known = EndedJob(deployment, r["expires"], str(gone.get("job") or ""))
        draft.job = replace(known, gone=gone, doubt="")


def _ending(draft: _Draft, r: Record) -> None:
    draft.job = EndedJob(r["deployment"], r["expires"], r.get("job") or "")


def _ready(draft: _Draft, r: Record) -> None:
    draft.request(r["request"], RequestStage.READY)


def _released(draft: _Draft, r: Record) -> None:
    completed = r["boundary"] == Boundary.COMPLETED.value
    draft.incarnation(r["incarnation"], IncarnationState.STANDBY if completed else IncarnationState.INTERRUPTED)
    draft.free(r["incarnation"], HoldEnd.RELEASED, r, r.get("ends"))
    if r.get("to") is not None:
        draft.request(r["request"], RequestStage.RELEASED, ends=draft.ends)


def _acquired(draft: _Draft, r: Record) -> None:
    name = r["incarnation"]
    appointed = draft.requests[r["request"]].to == name
    deployment = deployment_of(name)
    if draft.deployments[deployment].previous is None:
        draft.deployment(deployment, previous=deployment_of(draft.last_holder or ""))
        if draft.deployments[deployment].declared.get("rewind") is not None:
            draft.rewinder, draft.stood = name, draft.ends
    draft.request(r["request"], RequestStage.DONE if appointed else RequestStage.TAKEN_BACK)
    draft.incarnation(name, IncarnationState.HOLDER, epoch=r["epoch"], proof=_proof_so_far(draft, deployment))
    draft.holder = draft.last_holder = name
    draft.last_end, draft.epoch = None, r["epoch"]
    draft.job = None
    if appointed:
        draft.held_from = r.seq


def _proof_so_far(draft: _Draft, deployment: str) -> Proof:
    """The evidence of the holders of a deployment's release, which the newest of them has: `prune` keeps that one."""
    release = draft.deployments[deployment].release.hash
    held = (i for i in draft.incarnations.values() if i.epoch)
    same = [i for i in held if draft.deployments[i.deployment].release.hash == release]
    return max(same, key=lambda i: i.epoch).proof if same else Proof()


def _fencing(draft: _Draft, r: Record) -> None:
    found = draft.incarnations[r["incarnation"]]
    draft.incarnation(found.id, found.state, fencing=r["reason"])


def _fenced(draft: _Draft, r: Record) -> None:
    draft.incarnation(r["incarnation"], IncarnationState.FENCED, reason=r["reason"])
    draft.free(r["incarnation"], HoldEnd.FENCED, r)


def _aborted(draft: _Draft, r: Record) -> None:
    draft.request(r["request"], RequestStage.ABORTED)
    request = draft.requests[r["request"]]
    to, wish = draft.incarnations.get(request.to or ""), draft.wishes.get(request.wish)
    if draft.job is None or to is None or to.state is not IncarnationState.STANDBY:
        return
    if wish is not None and draft.wish is not None and wish.family != draft.wish.family:
        return  # that is why
    appointed = draft.deployments[to.deployment]
    if appointed.adopts and not appointed.ended:
        # It lived, and did not answer: as a rule because the logs of the checkpoints moved, so somebody writes them.
        draft.job = replace(draft.job, doubt=r["reason"])


def _failed(draft: _Draft, r: Record) -> None:
    name, deployment = r.get("incarnation"), r["deployment"]
    held = name is not None and draft.holder == name
    if name is not None:
        if name not in draft.incarnations:  # refused in its rehearsal
            _standby(draft, r)
        interrupted = r.get("boundary") == Boundary.INTERRUPTED.value
        after = IncarnationState.INTERRUPTED if interrupted else IncarnationState.FAILED
        draft.incarnation(name, after, reason=r["reason"])
        draft.free(name, HoldEnd.FAILED, r, r.get("ends"))
    twins = (i for i in draft.incarnations.values() if i.deployment == deployment)
    if held or all(twin.state.terminal for twin in twins):
        draft.end(deployment, DeploymentEnd.FAILED, r.seq, reason=r["reason"])
    # Otherwise a relaunched twin failed beside another driver: the deployment lives on.


def _finished(draft: _Draft, r: Record) -> None:
    name = r["incarnation"]
    draft.incarnation(name, IncarnationState.FINISHED)
    draft.free(name, HoldEnd.FINISHED, r, r.get("ends"))
    draft.end(draft.incarnations[name].deployment, DeploymentEnd.FINISHED, r.seq)


def _retired(draft: _Draft, r: Record) -> None:
    for twin in list(draft.incarnations.values()):
        if twin.deployment == r["deployment"] and twin.state is IncarnationState.STANDBY:
            draft.incarnation(twin.id, IncarnationState.RETIRED)
    draft.end(r["deployment"], DeploymentEnd.RETIRED, r.seq, reason=r.get("reason") or "")


def _wanted(draft: _Draft, r: Record) -> None:
    wish = Wish(r, _family(draft, r), _before(draft, r))
    if wish.goal is Goal.STAND_BY:
        draft.candidate = wish
    else:
        draft.wish, draft.candidate = wish, None
        if wish.goal.rest and draft.holder is None:
            draft.job = None  # a person's word: nothing is to follow it any more
            draft.last_end = draft.last_end and HoldEnd.STOPPED
        elif draft.job is not None:
            draft.job = replace(draft.job, doubt="")  # a new wish says that it is mended
    draft.wishes[wish.id] = wish


def _family(draft: _Draft, r: Record) -> str:
    if Goal(r["goal"]).rest:
        return ""
    return str(r.get("family") or r["wish"])


def _before(draft: _Draft, r: Record) -> str:
    """The family that was to hold until now; of the wish before, where that is for the same one, or never came to."""
    old = draft.wish
    if old is None or Goal(r["goal"]).rest or old.goal.rest:
        return ""
    ran = any(i.epoch and draft.deployments[i.deployment].family == old.family for i in draft.incarnations.values())
    return old.family if ran and old.family != _family(draft, r) else old.before


_APPLY = {
    Kind.DECLARED: _declared,
    Kind.SUBMITTED: _submitted,
    Kind.STANDBY: _standby,
    Kind.REQUESTED: _requested,
    Kind.READY: _ready,
    Kind.RELEASED: _released,
    Kind.ACQUIRED: _acquired,
    Kind.FENCING: _fencing,
    Kind.FENCED: _fenced,
    Kind.ABORTED: _aborted,
    Kind.FAILED: _failed,
    Kind.FINISHED: _finished,
    Kind.RETIRED: _retired,
    Kind.WANTED: _wanted,
    Kind.ENDING: _ending,
}
