"""The stored form of a folded state, from which a log is opened without reading it from its first record.

Two lines of JSON: a head with format, number and nonce of the last record, and SHA-256 of the second line, the state. A
reader that cannot use it folds the log instead, so it may be lost, damaged or of another version.

Every reader must leave out the same at the same record: the limits below belong to the log's format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from enum import Enum
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.proof import Proof
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.release import Release
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
from airflow_stream_provider.lifecycle.wish import EndedJob, Wish

# Grows with every change of what `fold` makes of a log, or of which logs are folded: a state of another format is not
# used.
FORMAT = 1


def dump(state: StreamState) -> bytes:
    """Return the stored form of a state."""
    body = {f.name: getattr(state, f.name) for f in fields(state)}
    body["deployments"] = [_deployment(each) for each in state.deployments.values()]
    body["incarnations"] = [asdict(each) for each in state.incarnations.values()]
    body["requests"] = [asdict(each) for each in state.requests.values()]
    body["illegal"] = [asdict(each) for each in state.illegal]
    body["wishes"] = [_wish(each) for each in state.wishes.values()]
    for name in ("wish", "candidate"):
        found = getattr(state, name)
        body[name] = None if found is None else found.id
    body["job"] = None if state.job is None else asdict(state.job)
    line = json.dumps(body, default=_value).encode()
    head = {"format": FORMAT, "seq": state.seq, "nonce": state.nonce, "sha256": hashlib.sha256(line).hexdigest()}
    return json.dumps(head).encode() + b"\n" + line + b"\n"


def load(data: bytes) -> StreamState | None:
    """Return the state, or None when it is damaged or of another format."""
    try:
        first, line, end = data.split(b"\n")
        head = json.loads(first)
        if head["format"] != FORMAT or head["sha256"] != hashlib.sha256(line).hexdigest() or end:
            return None
        state = _state(json.loads(line))
    except (StreamError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return None
    return state if (state.seq, state.nonce) == (head["seq"], head["nonce"]) else None


def _value(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"A state holds a {type(value).__name__}.")


def _deployment(found: Deployment) -> dict[str, Any]:
    record = found.declared
    rest = {name: getattr(found, name) for name in _DEPLOYMENT}
    return {"id": found.id, "seq": record.seq, "declared": record.to_json().decode(), **rest}


def _wish(found: Wish) -> dict[str, Any]:
    rest = {name: getattr(found, name) for name in ("family", "before")}
    return {"seq": found.seq, "record": found.record.to_json().decode(), **rest}


def _read_wish(body: Mapping[str, Any]) -> Wish:
    record = Record.from_json(body["record"].encode(), body["seq"])
    return Wish(record, body["family"], body["before"])


def _state(body: dict[str, Any]) -> StreamState:
    last_end = body["last_end"]
    wishes = {wish.id: wish for wish in map(_read_wish, body["wishes"])}
    return StreamState(
        **{
            **body,
            "deployments": {each["id"]: _read_deployment(each) for each in body["deployments"]},
            "incarnations": {each["id"]: _read_incarnation(each) for each in body["incarnations"]},
            "requests": {each["id"]: _read_request(each) for each in body["requests"]},
            "illegal": tuple(IllegalRecord(**each) for each in body["illegal"]),
            "forgotten": tuple(body["forgotten"]),
            "job": None if body["job"] is None else EndedJob(**body["job"]),
            "wishes": wishes,
            "wish": wishes[body["wish"]] if body["wish"] else None,
            "candidate": wishes[body["candidate"]] if body["candidate"] else None,
            "last_end": None if last_end is None else HoldEnd(last_end),
        }
    )


# The fields that are not in the `declared` record.
_DEPLOYMENT = ("submission", "cluster", "ended", "reason", "ended_seq", "previous")


def _read_deployment(body: Mapping[str, Any]) -> Deployment:
    record = Record.from_json(body["declared"].encode(), body["seq"])
    release, policy = Release.from_json(record["release"]), Policy.from_json(record.get("policy") or {})
    ended = None if body["ended"] is None else DeploymentEnd(body["ended"])
    rest = {name: body[name] for name in _DEPLOYMENT}
    return Deployment(body["id"], release, record, policy, **{**rest, "ended": ended})


def _read_incarnation(body: Mapping[str, Any]) -> Incarnation:
    found = Incarnation(**body)
    return replace(
        found,
        state=IncarnationState(found.state),
        queries=tuple(found.queries),
        proof=Proof(**body["proof"]),
    )


def _read_request(body: Mapping[str, Any]) -> Request:
    found = Request(**body)
    return replace(found, stage=RequestStage(found.stage))


# Kept of what has ended: so many deployments, and so many drivers beside those of these deployments.
DEPLOYMENTS_KEPT = 100
INCARNATIONS_KEPT = 100
REQUESTS_KEPT = 100
WISHES_KEPT = 100
# So many ids of what was left out are remembered: a deployment is declared once, and a request is made once (rule 5).
IDS_KEPT = 10_000


# After every record whose number is a multiple of this.
PRUNE_EVERY = 100


def prune(state: StreamState) -> StreamState:
    """Return the state without what ended long ago and nothing refers to any more; now and then, by its number."""
    if state.seq % PRUNE_EVERY:
        return state
    needed = {i.id for i in _needed(state)}
    followed = {state.job.deployment} if state.job is not None else set()
    followed |= _newest_of_families(state)
    deployments = _old_deployments(state, {state.incarnations[name].deployment for name in needed} | followed)
    requests = list(state.requests)[:-REQUESTS_KEPT]
    over = [i.id for i in state.incarnations.values() if i.state.terminal and i.id not in needed]
    incarnations = {i.id for i in state.incarnations.values() if i.deployment in deployments}
    incarnations.update(over[:-INCARNATIONS_KEPT])
    wishes = _old_wishes(state, {d.family for name, d in state.deployments.items() if name not in deployments})
    if not (deployments or requests or incarnations or wishes):
        return state
    return replace(
        state,
        deployments={name: d for name, d in state.deployments.items() if name not in deployments},
        incarnations={name: i for name, i in state.incarnations.items() if name not in incarnations},
        requests={name: r for name, r in state.requests.items() if name not in requests},
        wishes={name: w for name, w in state.wishes.items() if name not in wishes},
        forgotten=(*state.forgotten, *deployments, *requests, *wishes)[-IDS_KEPT:],
    )


def _old_wishes(state: StreamState, families: set[str]) -> list[str]:
    """Return the wishes to leave out: not those that are current, and not those that a kept deployment serves."""
    served = state.open_request.wish if state.open_request is not None else ""
    current = [each for each in (state.wish, state.candidate, state.wishes.get(served)) if each is not None]
    needed = families | {name for each in current for name in (each.id, each.family, each.before)}
    return [name for name in list(state.wishes)[:-WISHES_KEPT] if name not in needed]


def _newest_of_families(state: StreamState) -> set[str]:
    """Return the last deployments that serve what is wished for, and what was before it: they say what to run."""
    return {state.family(name)[-1].id for name in _families(state) if state.family(name)}


def _families(state: StreamState) -> dict[str, None]:
    """Return the families of what is wished for, and of what was before it."""
    wanted = (state.wish, state.candidate)
    return dict.fromkeys(name for each in wanted if each is not None for name in (each.family, each.before))


def _old_deployments(state: StreamState, needed: Iterable[str]) -> dict[str, None]:
    """Return the deployments to leave out, in the order in which they ended."""
    ended = sorted((d for d in state.deployments.values() if d.ended), key=lambda d: d.ended_seq)
    return dict.fromkeys(d.id for d in ended[:-DEPLOYMENTS_KEPT] if d.id not in needed)


def _needed(state: StreamState) -> list[Incarnation]:
    """Return the drivers that a decision may still ask for.

    Those that may live or must be fenced; the last holder; the ones that the requests name; and what a recovery goes
    by: the last one whose deployment ended otherwise than by failing, and the last holder of each release that was run
    lately or is deployed now, and of what is wished for, and was before it.
    """
    live = (IncarnationState.STANDBY, IncarnationState.HOLDER)
    named = {state.last_holder}
    for request in list(state.requests.values())[-REQUESTS_KEPT:]:
        named |= {request.to, request.source}
    needed = [
        i
        for i in state.incarnations.values()
        if i.id in named
        or i.state is IncarnationState.INTERRUPTED
        or (i.state in live and not state.deployments[i.deployment].ended)
    ]
    by_release: dict[str, Incarnation] = {}
    by_family: dict[str, Incarnation] = {}
    sound: list[Incarnation] = []
    for held in state.held:
        deployment = state.deployments[held.deployment]
        by_release.setdefault(deployment.release.hash, held)
        by_family.setdefault(deployment.family, held)
        if not sound and deployment.ended not in (None, DeploymentEnd.FAILED):  # one that lives may fail yet
            sound.append(held)
    deployed = {d.release.hash for d in state.deployments.values() if not d.ended}
    late = set(list(by_release)[:DEPLOYMENTS_KEPT])
    wished = [by_family[each] for each in _families(state) if each in by_family]
    return [*needed, *(by_release[each] for each in by_release if each in deployed | late), *sound, *wished]
