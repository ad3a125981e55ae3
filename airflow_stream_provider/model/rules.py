"""Which record may follow which state: the one transition table of the control log.

Every append goes through `check`, so an illegal record is refused before it is written, and the refusal names the
rule. The rules are those of the design: one holder at a time, fencing is a confirmed kill, intent first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from airflow_stream_provider.model.errors import RuleBroken
from airflow_stream_provider.model.record import Boundary, Record
from airflow_stream_provider.model.state import IncarnationState, Request, RequestStage, StreamState


class Rule(NamedTuple):
    """A name to find it by, the sentence shown when it is broken, and the test that must be true."""

    name: str
    sentence: str
    holds: Callable[[StreamState, Record], bool]


def check(state: StreamState, record: Record) -> None:
    """Raise RuleBroken, with the rule's name, when the record may not follow this state.

    Kinds that this version does not know have no rules: they are carried, never fatal.
    """
    for rule in RULES.get(record.kind, ()):
        if not rule.holds(state, record):
            raise RuleBroken(
                f"{record.kind!r} refused by rule {rule.name!r}: {rule.sentence} "
                f"(holder {state.holder or 'none'}, epoch {state.epoch}, record {state.seq}).",
                todo="Read the stream's status and decide again.",
                rule=rule.name,
                kind=record.kind,
                holder=state.holder,
            )


def may_acquire(state: StreamState, incarnation: str) -> bool:
    """Whether this incarnation may take the stream now: nobody holds, and it is appointed or takes back."""
    request = state.open_request
    if request is None or state.holder is not None or state.must_fence:
        return False
    if not _standby(state, incarnation) or _ended(state, state.incarnations[incarnation].deployment):
        return False
    return _appointed(request, incarnation) or _takes_back(request, incarnation)


def _appointed(request: Request, incarnation: str) -> bool:
    return request.to == incarnation and request.stage in (RequestStage.READY, RequestStage.RELEASED)


def _takes_back(request: Request, incarnation: str) -> bool:
    return request.source == incarnation and request.stage is RequestStage.RELEASED


def _known(state: StreamState, deployment: str) -> bool:
    return deployment in state.deployments


def _ended(state: StreamState, deployment: str) -> bool:
    return bool(state.deployments[deployment].ended)


def _standby(state: StreamState, incarnation: str | None) -> bool:
    found = state.incarnations.get(incarnation) if incarnation else None
    return found is not None and found.state is IncarnationState.STANDBY


def _live_standby(state: StreamState, incarnation: str) -> bool:
    return _standby(state, incarnation) and not _ended(state, state.incarnations[incarnation].deployment)


def _open(state: StreamState, record: Record, *stages: RequestStage) -> bool:
    request = state.open_request
    return request is not None and request.id == record["id"] and (not stages or request.stage in stages)


def _abortable(state: StreamState, record: Record) -> bool:
    request = state.open_request
    if request is None or request.id != record["id"]:
        return False
    if record.at >= request.expires:
        return True
    if request.stage is RequestStage.RELEASED:
        return False  # the old holder may be about to take back, the new one about to acquire
    appointee_lost = request.to is not None and not _live_standby(state, request.to)
    return appointee_lost or record.get("incarnation") == state.holder is not None or record.by == request.by


def _releasable(state: StreamState, record: Record) -> bool:
    if record.get("id") is None:
        return record.get("to") is None
    request = state.open_request
    if request is None or request.id != record["id"] or request.to != record.get("to"):
        return False
    return request.stage is (RequestStage.REQUESTED if request.to is None else RequestStage.READY)


def _not_needed_by_request(state: StreamState, record: Record) -> bool:
    request = state.open_request
    if request is None:
        return True
    names = {i.id for i in state.of_deployment(record["deployment"])}
    return not names & {request.to, request.source}


def _failable(state: StreamState, record: Record) -> bool:
    name = record.get("incarnation")
    if name is None:  # the driver never came up: nothing of this deployment may be alive
        return not any(not i.state.terminal for i in state.of_deployment(record["deployment"]))
    found = state.incarnations.get(name)
    return found is None or not found.state.terminal


_BOUNDARIES = frozenset(b.value for b in Boundary)

RULES: dict[str, tuple[Rule, ...]] = {
    "declared": (
        Rule("declare-once", "this deployment is declared already", lambda s, r: not _known(s, r["deployment"])),
    ),
    "submitted": (
        Rule("intent-first", "the deployment was not declared", lambda s, r: _known(s, r["deployment"])),
        Rule(
            "submit-once",
            "it has a submission already",
            lambda s, r: not s.deployments[r["deployment"]].submission,
        ),
    ),
    "standby": (
        Rule("intent-first", "the deployment was not declared", lambda s, r: _known(s, r["deployment"])),
        Rule("not-ended", "the deployment has ended", lambda s, r: not _ended(s, r["deployment"])),
        Rule(
            "announce-once",
            "this driver announced itself",
            lambda s, r: r["incarnation"] not in s.incarnations,
        ),
    ),
    "requested": (
        Rule("ask-once", "this request was made already", lambda s, r: r["id"] not in s.requests),
        Rule("one-request", "another request is open", lambda s, r: s.open_request is None),
        Rule("stop-needs-holder", "nobody holds", lambda s, r: r.get("to") is not None or s.holder is not None),
        Rule(
            "to-a-standby",
            "the wanted driver is not a live standby",
            lambda s, r: r.get("to") is None or _live_standby(s, r["to"]),
        ),
    ),
    "ready": (
        Rule("answer-open", "no such request waits", lambda s, r: _open(s, r, RequestStage.REQUESTED)),
        Rule(
            "only-the-asked",
            "the request names another driver",
            lambda s, r: s.requests[r["id"]].to == r["incarnation"] and _live_standby(s, r["incarnation"]),
        ),
    ),
    "released": (
        Rule("only-the-holder", "only the holder can release", lambda s, r: s.holder == r["incarnation"]),
        Rule("as-requested", "the request is not open, not answered, or names another driver", _releasable),
        Rule("boundary-known", "the boundary is not named", lambda s, r: r["boundary"] in _BOUNDARIES),
    ),
    "acquired": (
        Rule("one-holder", "somebody holds the stream", lambda s, r: s.holder is None),
        Rule("fence-first", "a driver stopped inside a batch is not fenced yet", lambda s, r: not s.must_fence),
        Rule(
            "only-the-appointed",
            "no open request appoints this driver",
            lambda s, r: _open(s, r) and may_acquire(s, r["incarnation"]),
        ),
        Rule("next-epoch", "the epoch must grow by one", lambda s, r: r["epoch"] == s.epoch + 1),
    ),
    "fenced": (
        Rule("known-driver", "no such driver announced itself", lambda s, r: r["incarnation"] in s.incarnations),
        Rule(
            "fence-once",
            "this driver has ended already",
            lambda s, r: not s.incarnations[r["incarnation"]].state.terminal or r["incarnation"] in s.must_fence,
        ),
        Rule(
            "say-why",
            "a fence needs its reason and evidence",
            lambda s, r: bool(r["reason"] and r["evidence"]),
        ),
    ),
    "aborted": (
        Rule("abort-open", "no such request is open", lambda s, r: _open(s, r)),
        Rule("abort-in-time", "it has not expired, and is not the author's to abort", _abortable),
    ),
    "failed": (
        Rule("intent-first", "the deployment was not declared", lambda s, r: _known(s, r["deployment"])),
        Rule("fail-once", "the deployment has ended", lambda s, r: not _ended(s, r["deployment"])),
        Rule("alive-or-absent", "the driver has ended already, or one is alive that is not named", _failable),
    ),
    "finished": (Rule("only-the-holder", "only the holder can finish", lambda s, r: s.holder == r["incarnation"]),),
    "retired": (
        Rule("intent-first", "the deployment was not declared", lambda s, r: _known(s, r["deployment"])),
        Rule("retire-once", "the deployment has ended", lambda s, r: not _ended(s, r["deployment"])),
        Rule(
            "not-the-holder",
            "it holds the stream: stop it first",
            lambda s, r: s.holder not in {i.id for i in s.of_deployment(r["deployment"])},
        ),
        Rule("not-in-hand-over", "the open request needs it", _not_needed_by_request),
    ),
}
