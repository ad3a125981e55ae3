"""Which record may follow which state: the one transition table of the control log.

Every append goes through `check`: an illegal record is refused before it is written, and the error names the rule. So
does every record that is read: one that got into the log all the same is not obeyed. docs/architecture.md explains
the rules. A rule is never changed: two versions with different rules would read one log differently.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple

from airflow_stream_provider.lifecycle.errors import RuleBroken, StreamError
from airflow_stream_provider.lifecycle.fields import sound_fields
from airflow_stream_provider.lifecycle.ids import DEPLOYMENT, INCARNATION, deployment_of
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Boundary, Kind, Record, evidence_of
from airflow_stream_provider.lifecycle.state import IncarnationState, Request, RequestStage, StreamPhase, StreamState
from airflow_stream_provider.lifecycle.wish import Goal, Wish


class Rule(NamedTuple):
    """One rule: its name, the sentence that an error shows when it is broken, and the test."""

    name: str
    sentence: str
    holds: Callable[[StreamState, Record], bool]


def check(state: StreamState, record: Record) -> None:
    """Raise RuleBroken when the record may not follow this state.

    Records of kinds that this version does not know have no rules and always pass.
    """
    for rule in RULES.get(record.kind, ()):
        if not _holds(rule, state, record):
            raise RuleBroken(
                f"{record.kind!r} refused by rule {rule.name!r}: {rule.sentence} "
                f"(holder {state.holder or 'none'}, epoch {state.epoch}, record {state.seq}).",
                next_step="Read the stream's status and decide again.",
                rule=rule.name,
                kind=record.kind,
                holder=state.holder,
            )


def _holds(rule: Rule, state: StreamState, record: Record) -> bool:
    try:
        return rule.holds(state, record)
    except (StreamError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return False  # the record's fields are not what anybody writes


def live_standby(state: StreamState, incarnation: str | None) -> bool:
    """Whether this driver is a standby whose deployment has not ended, by the log. Its process may be dead."""
    found = state.incarnations.get(incarnation) if incarnation else None
    return (
        found is not None and found.state is IncarnationState.STANDBY and not state.deployments[found.deployment].ended
    )


def may_acquire(state: StreamState, incarnation: str) -> bool:
    """Whether this incarnation may acquire now: no driver holds, and it is the appointed standby or the releaser."""
    request = state.open_request
    if request is None or state.holder is not None or state.must_fence or not live_standby(state, incarnation):
        return False
    if request.stage is RequestStage.RELEASED and request.source == incarnation:
        return True
    return request.to == incarnation and request.stage is not RequestStage.REQUESTED


def may_release(state: StreamState, incarnation: str, request_id: str) -> bool:
    """Whether the holder may release for this request now.

    The request must be open, and its standby must have answered and still be a live standby. A holder that has stopped
    its queries but may no longer release starts them again in place.
    """
    request = state.open_request
    if state.holder != incarnation or request is None or request.id != request_id:
        return False
    return request.to is None or (request.stage is RequestStage.READY and live_standby(state, request.to))


def may_abort(state: StreamState, record: Record) -> bool:
    """Whether this `aborted` record may end the open request.

    It may when the standby is lost, the holder itself aborts, the request has expired, its author withdraws it, or
    the wish that it serves was replaced.
    After `released` none of that is enough: the standby or, after its wait, the releaser goes on by itself. Then both
    must be lost, and each of them is fenced first.
    """
    request = state.open_request
    if request is None or request.id != record["request"]:
        return False
    lost = request.to is not None and not live_standby(state, request.to)
    if request.stage is RequestStage.RELEASED:
        return lost and not live_standby(state, request.source)
    by_holder = state.holder is not None and record.get("incarnation") == state.holder
    return lost or by_holder or record.at >= request.expires or record.by == request.by or not is_wanted(state, request)


def is_wanted(state: StreamState, request: Request) -> bool:
    """Whether a request serves what is wished for now; one that names no wish does."""
    known = state.wishes.get(request.wish)
    return known is None or state.is_current(known)


def is_so(state: StreamState, wish: Wish) -> bool:
    """Whether what a wish asks for is so, by the log; drivers that have ended may still be exiting."""
    if wish.goal.rest:
        asked = state.candidate.family if state.candidate is not None else ""
        return state.holder is None and all(
            d.ended or (asked and d.family == asked) for d in state.deployments.values()
        )
    held = state.holding_deployment
    if wish.goal is Goal.HOLD:
        return held is not None and held.fulfils(wish)
    return any(state.deployments[each.deployment].family == wish.family for each in state.standbys())


def job_may_write(state: StreamState) -> bool:
    """Whether a job without a stream, which is to be followed, is not confirmed gone; its follower may be lost."""
    return bool(state.follower) if state.job is None else not state.job.gone


def is_adopting(state: StreamState) -> bool:
    """Whether the release that is to hold follows a job without a stream, and has not held yet."""
    wish = state.wish
    origin = None if wish is None else state.wishes.get(wish.family)
    adopts = origin is not None and origin.adopts
    return adopts and origin is not None and state.holder is None and not state.has_run(origin.family)


def _at_rest(state: StreamState) -> bool:
    return state.phase in (StreamPhase.EMPTY, StreamPhase.STOPPED) or is_adopting(state)


def _known(state: StreamState, deployment: str) -> bool:
    return deployment in state.deployments


def _ended(state: StreamState, deployment: str) -> bool:
    return bool(state.deployments[deployment].ended)


def _open(state: StreamState, record: Record) -> bool:
    request = state.open_request
    return request is not None and request.id == record["request"]


def _answerable(state: StreamState, record: Record) -> bool:
    request = state.open_request
    return request is not None and request.id == record["request"] and request.stage is RequestStage.REQUESTED


def _releasable(state: StreamState, record: Record) -> bool:
    if record.get("request") is None:
        return record.get("to") is None
    request = state.requests.get(record["request"])
    named = request is not None and request.to == record.get("to")
    return named and may_release(state, record["incarnation"], record["request"])


def _not_needed_by_request(state: StreamState, record: Record) -> bool:
    request = state.open_request
    if request is None:
        return True
    names = {i.id for i in state.of_deployment(record["deployment"])}
    return not names & {request.to, request.source}


def _failable(state: StreamState, record: Record) -> bool:
    name = record.get("incarnation")
    if name is None:  # the driver never came up: nothing of this deployment may be alive
        return all(i.state.terminal for i in state.of_deployment(record["deployment"]))
    found = state.incarnations.get(name)
    return found is None or not found.state.terminal


def _adopts(record: Record) -> bool:
    return Policy.from_json(record.get("policy") or {}).adopts and not record.get("again")


def _newer_than_hold(state: StreamState) -> bool:
    return state.wish is not None and state.wish.seq > state.held_to


def _knows(state: StreamState, record: Record) -> bool:
    """Whether the wish is known that brought this record's family in, or a deployment that serves it."""
    family = record.get("family")
    origin = state.wishes.get(family or "")
    return bool(state.family(family or "")) or (origin is not None and origin.family == family)


def _fencible(state: StreamState, incarnation: str) -> bool:
    return not state.incarnations[incarnation].state.terminal or incarnation in state.must_fence


def _own(record: Record) -> bool:
    name = record.get("incarnation")
    return name is None or bool(INCARNATION.fullmatch(name) and deployment_of(name) == record["deployment"])


def _new(state: StreamState, id: str, known: Container[str]) -> bool:
    return id not in known and id not in state.forgotten


def _complete(*names: str) -> Rule:
    return Rule("complete", f"it needs {', '.join(names)}", lambda _, r: all(r.get(n) is not None for n in names))


_GOALS = frozenset(g.value for g in Goal)
_BOUNDARIES = frozenset(b.value for b in Boundary)
_SOUND_FIELDS = Rule("sound-fields", "a field has a value of the wrong type", lambda _, r: sound_fields(r))

RULES: dict[str, tuple[Rule, ...]] = {
    Kind.DECLARED: (
        _complete("deployment", "release"),
        _SOUND_FIELDS,
        Rule("sound-id", "that is no deployment's id", lambda s, r: bool(DEPLOYMENT.fullmatch(r["deployment"]))),
        Rule(
            "declare-once", "this deployment is declared already", lambda s, r: _new(s, r["deployment"], s.deployments)
        ),
        Rule("wish-first", "no wish brought this family in", lambda s, r: not r.get("family") or _knows(s, r)),
        Rule(
            "adopt-at-rest",
            "the stream has run since somebody wished that it adopts a job",
            lambda s, r: not _adopts(r) or s.job is not None or (s.holder is None and _newer_than_hold(s)),
        ),
    ),
    Kind.WANTED: (
        _complete("wish", "goal"),
        _SOUND_FIELDS,
        Rule("known-goal", "that is no goal", lambda s, r: r["goal"] in _GOALS),
        Rule("wish-once", "this wish was made already", lambda s, r: _new(s, r["wish"], s.wishes)),
        Rule(
            "known-family",
            "a release that no wish has brought in needs its description",
            lambda s, r: Goal(r["goal"]).rest or _knows(s, r) or (r.get("release") and not r.get("family")),
        ),
        Rule(
            "adopt-at-rest",
            "a stream that is running, or is about to, adopts no job",
            lambda s, r: not _adopts(r) or s.job is not None or _at_rest(s),
        ),
    ),
    Kind.SUBMITTED: (
        _complete("deployment", "submission"),
        _SOUND_FIELDS,
        Rule("intent-first", "the deployment was not declared", lambda s, r: _known(s, r["deployment"])),
        Rule(
            "submit-once",
            "it has a submission already",
            lambda s, r: not s.deployments[r["deployment"]].submission,
        ),
    ),
    Kind.STANDBY: (
        _complete("deployment", "incarnation"),
        _SOUND_FIELDS,
        Rule("intent-first", "the deployment was not declared", lambda s, r: _known(s, r["deployment"])),
        Rule("not-ended", "the deployment has ended", lambda s, r: not _ended(s, r["deployment"])),
        Rule("sound-id", "that is no driver of this deployment", lambda s, r: _own(r)),
        Rule(
            "announce-once",
            "this driver announced itself",
            lambda s, r: r["incarnation"] not in s.incarnations,
        ),
    ),
    Kind.REQUESTED: (
        _complete("request", "expires"),
        _SOUND_FIELDS,
        Rule("ask-once", "this request was made already", lambda s, r: _new(s, r["request"], s.requests)),
        Rule("one-request", "another request is open", lambda s, r: s.open_request is None),
        Rule("stop-needs-holder", "nobody holds", lambda s, r: r.get("to") is not None or s.holder is not None),
        Rule(
            "to-a-standby",
            "the wanted driver is not a live standby",
            lambda s, r: r.get("to") is None or live_standby(s, r["to"]),
        ),
        Rule(
            "job-gone-first",
            "a job that a driver is to follow may write, and nobody has confirmed that it is gone",
            lambda s, r: r.get("to") is None or bool(evidence_of(r)) or not job_may_write(s),
        ),
    ),
    Kind.READY: (
        _complete("request", "incarnation"),
        _SOUND_FIELDS,
        Rule("answer-open", "no such request waits", _answerable),
        Rule(
            "only-the-asked",
            "the request names another driver, or this one has ended",
            lambda s, r: s.requests[r["request"]].to == r["incarnation"] and live_standby(s, r["incarnation"]),
        ),
    ),
    Kind.RELEASED: (
        _complete("incarnation", "boundary"),
        _SOUND_FIELDS,
        Rule("only-the-holder", "only the holder can release", lambda s, r: s.holder == r["incarnation"]),
        Rule("boundary-known", "the boundary is not named", lambda s, r: r["boundary"] in _BOUNDARIES),
        Rule("as-requested", "the request is not open, not answered, or names another driver", _releasable),
    ),
    Kind.ACQUIRED: (
        _complete("incarnation", "request", "epoch"),
        _SOUND_FIELDS,
        Rule("one-holder", "somebody holds the stream", lambda s, r: s.holder is None),
        Rule("fence-first", "a driver stopped inside a batch is not fenced yet", lambda s, r: not s.must_fence),
        Rule(
            "only-the-appointed",
            "no open request appoints this driver",
            lambda s, r: _open(s, r) and may_acquire(s, r["incarnation"]),
        ),
        Rule("next-epoch", "the epoch must grow by one", lambda s, r: r["epoch"] == s.epoch + 1),
    ),
    Kind.FENCING: (
        _complete("incarnation", "reason"),
        _SOUND_FIELDS,
        Rule("known-driver", "no such driver announced itself", lambda s, r: r["incarnation"] in s.incarnations),
        Rule("fence-once", "this driver has ended already", lambda s, r: _fencible(s, r["incarnation"])),
        Rule("say-why", "a fence needs its reason", lambda s, r: bool(r["reason"])),
        Rule("say-once", "its fence is declared already", lambda s, r: not s.incarnations[r["incarnation"]].fencing),
    ),
    Kind.FENCED: (
        _complete("incarnation"),
        _SOUND_FIELDS,
        Rule("known-driver", "no such driver announced itself", lambda s, r: r["incarnation"] in s.incarnations),
        Rule("fence-once", "this driver has ended already", lambda s, r: _fencible(s, r["incarnation"])),
        Rule(
            "say-why",
            "a fence needs its reason and evidence",
            lambda s, r: bool(r.get("reason") and r.get("evidence")),
        ),
    ),
    Kind.ABORTED: (
        _complete("request", "reason"),
        _SOUND_FIELDS,
        Rule("abort-open", "no such request is open", _open),
        Rule(
            "abort-in-time", "it has not expired and is not the author's, or the holder has released for it", may_abort
        ),
    ),
    Kind.FAILED: (
        _complete("deployment", "reason"),
        _SOUND_FIELDS,
        Rule("intent-first", "the deployment was not declared", lambda s, r: _known(s, r["deployment"])),
        Rule("fail-once", "the deployment has ended", lambda s, r: not _ended(s, r["deployment"])),
        Rule("sound-id", "that is no driver of this deployment", lambda s, r: _own(r)),
        Rule("boundary-known", "the boundary is not named", lambda s, r: r.get("boundary", "completed") in _BOUNDARIES),
        Rule("alive-or-absent", "the driver has ended already, or one is alive that is not named", _failable),
    ),
    Kind.FINISHED: (
        _complete("incarnation"),
        _SOUND_FIELDS,
        Rule("only-the-holder", "only the holder can finish", lambda s, r: s.holder == r["incarnation"]),
    ),
    Kind.RETIRED: (
        _complete("deployment"),
        _SOUND_FIELDS,
        Rule("intent-first", "the deployment was not declared", lambda s, r: _known(s, r["deployment"])),
        Rule("retire-once", "the deployment has ended", lambda s, r: not _ended(s, r["deployment"])),
        Rule(
            "not-the-holder",
            "it holds the stream: stop it first",
            lambda s, r: s.holder not in {i.id for i in s.of_deployment(r["deployment"])},
        ),
        Rule("not-in-hand-over", "the open request needs it", _not_needed_by_request),
    ),
    Kind.ENDING: (
        _complete("deployment", "reason", "expires"),
        _SOUND_FIELDS,
        Rule("intent-first", "the deployment was not declared", lambda s, r: _known(s, r["deployment"])),
        Rule("not-ended", "the deployment has ended", lambda s, r: not _ended(s, r["deployment"])),
        Rule("one-request", "another request is open", lambda s, r: s.open_request is None),
        Rule("nobody-holds", "somebody holds the stream", lambda s, r: s.holder is None),
        Rule("only-a-follower", "it is to follow no job", lambda s, r: s.deployments[r["deployment"]].adopts),
    ),
    Kind.UNREADABLE: (Rule("readable", "it is no record, or too large", lambda s, r: False),),
}
