"""Fence a driver: declare it (rule 5), kill it, have it confirmed dead, say so in the control log (rule 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.planning.signs_of_life import BY_LEDGER, MAY_WRITE, Dead
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, GiveUp, Kill, Refusal, Refuse, Step
from airflow_stream_provider.planning.waits import Ended, WaitOutcome

BY_THE_CLUSTER = "Fence it without anybody's word: it is then killed, and the cluster confirms that."


def fence(snapshot: Snapshot, incarnation: str, outcome: WaitOutcome | None, reason: str) -> Step:
    """Append `fencing`, kill the driver, append `fenced` once the wait has confirmed that it is dead.

    A driver that is found dead already is not killed, and not declared. One that has beaten since is not dead. One on a
    lost machine is as good as dead once the ledger of its sinks refuses it; that comes last, right before the record.
    """
    policy = snapshot.policy(deployment_of(incarnation))
    dead = Dead(incarnation, policy.lease_seconds, policy.pause_seconds)
    refusal = _refusal(snapshot, incarnation, policy.ledger)
    if outcome is not None and _is_dead(snapshot, incarnation, outcome):
        fenced = _fenced(snapshot, incarnation, outcome, reason)
        if not outcome.evidence.get(BY_LEDGER):
            return fenced
        if refusal is not None:
            return Refuse(refusal, fenced, dead)
    found = snapshot.state.incarnations.get(incarnation)
    if found is not None and not found.fencing:
        return Append(Kind.FENCING, {"incarnation": incarnation, "reason": reason})
    return Kill(deployment_of(incarnation), replace(dead, ledger=refusal is not None))


def _fenced(snapshot: Snapshot, incarnation: str, outcome: WaitOutcome, reason: str) -> Append:
    evidence = dict(outcome.evidence)
    beat = snapshot.heartbeats.get(incarnation)
    if beat is not None and beat.at:
        evidence["last_sign"] = beat.at  # for people: the stream has no driver since then
    fields = {"incarnation": incarnation, "reason": reason, "evidence": evidence}
    committed = _has_committed(snapshot, incarnation)
    return Append(Kind.FENCED, fields if committed is None else {**fields, "committed": committed})


def _refusal(snapshot: Snapshot, incarnation: str, ledger: str) -> Refusal | None:
    """Return what the ledger is to refuse of a driver that may write; None: it would not be all that it may do.

    A ledger holds back rows and offsets alone. State is in the checkpoint, and so is a rewind that is due: where there
    is either, the driver is waited for.
    """
    state, beat = snapshot.state, snapshot.heartbeats.get(incarnation)
    if not ledger or beat is None or not state.may_write(incarnation) or incarnation == state.rewinder:
        return None
    found = state.incarnations[incarnation]
    announced = {query["name"]: query for query in found.queries}
    told = {query.name for query in beat.queries}
    if beat.epoch != found.epoch or not told or announced.keys() - told:
        return None
    if not all(_is_bare(query, announced.get(query.name, {})) for query in beat.queries):
        return None
    return Refusal(ledger, incarnation, found.epoch, tuple(query.id for query in beat.queries))


def _is_bare(query: QueryProgress, announced: Mapping[str, Any]) -> bool:
    """Whether a query has no state. Spark says it of a batch; before that, the plan of one that is announced does."""
    said = query.spark
    tells = "addBatch" in said.get("durationMs", {}) or announced.get("fingerprint") == []
    return bool(query.id) and tells and not said.get("stateOperators")


def fence_by_word(snapshot: Snapshot, incarnation: str, person: str, reason: str) -> Step:
    """Append `fenced` by a person's word, unless its driver has beaten within a lease: then it cannot be gone."""
    found = still_beats(snapshot, incarnation)
    if found:
        return GiveUp(HandOverFailed(found, next_step=BY_THE_CLUSTER, incarnation=incarnation))
    return fence(snapshot, incarnation, WaitOutcome(Ended.DEAD, incarnation, evidence={"person": person}), reason)


def still_beats(snapshot: Snapshot, incarnation: str) -> str:
    """Return that a driver was alive within a lease, by the clocks of both machines; empty: that is not known."""
    beat = snapshot.heartbeats.get(incarnation)
    age = snapshot.at - beat.at if beat is not None and beat.at else None
    if age is None or abs(age) >= snapshot.policy(deployment_of(incarnation)).lease_seconds:
        return ""
    return f"{incarnation} was alive {duration(max(0.0, age))} ago, by its heartbeat: it cannot be gone."


def fence_first(snapshot: Snapshot, outcome: WaitOutcome | None) -> Step | None:
    """Return the fence that comes first: of a driver confirmed dead or of one that stopped inside a batch; or None."""
    if outcome is not None and _is_dead(snapshot, outcome.subject, outcome) and may_fence(snapshot, outcome.subject):
        return fence(snapshot, outcome.subject, outcome, outcome.reason)
    for incarnation in snapshot.state.must_fence:
        return fence(snapshot, incarnation, outcome, "It stopped inside a batch.")
    return None


def _is_dead(snapshot: Snapshot, incarnation: str, outcome: WaitOutcome | None) -> bool:
    if outcome is None or not outcome.about(Ended.DEAD, incarnation):
        return False
    # A driver that counted as dead because it could not write may have been back, and have acquired, since.
    writes = snapshot.state.may_write(incarnation) and outcome.evidence.get(MAY_WRITE) is False
    return not writes and not outcome.outdated(incarnation, snapshot.counter(incarnation))


def _has_committed(snapshot: Snapshot, incarnation: str) -> bool | None:
    """Whether a holder has committed a batch, by its last heartbeat; None when that does not tell of this hold."""
    beat = snapshot.heartbeats.get(incarnation)
    if snapshot.state.holder != incarnation or beat is None:
        return None
    if any(query.commits for query in beat.queries):
        # Before it has reported its rewind, only queries that the script has added late can have begun.
        return None if incarnation == snapshot.state.rewinder and not beat.rewind else True
    return False if beat.queries and beat.epoch == snapshot.state.epoch else None


def may_fence(snapshot: Snapshot, incarnation: str) -> bool:
    """Return whether the log allows `fenced` for this driver: it has not ended, or it stopped inside a batch."""
    found = snapshot.state.incarnations.get(incarnation)
    return found is not None and (not found.state.terminal or incarnation in snapshot.state.must_fence)
