"""What a task must have reached by the log when it says that it is done, whoever else did what meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import IncarnationState, StreamState
from airflow_stream_provider.planning.choice import TRIES
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Done, GiveUp, Skip, Step, TaskIdentity
from airflow_stream_provider.planning.waits import WaitOutcome
from tests.support.simulation.oracle_of_wishes import family_of

Plan = Callable[[Snapshot, TaskIdentity, WaitOutcome | None], Step]


@dataclass(frozen=True)
class Ended:
    """How a task ended: with which step, and what it had seen then."""

    step: Step
    identity: TaskIdentity
    seen: Snapshot

    @property
    def state(self) -> StreamState:
        """The log that it had read."""
        return self.seen.state

    @property
    def wish(self) -> Record | None:
        """The record of its wish; None: it has made none, or one that the log does not show any more."""
        mine = (r for r in self.seen.records if r.kind == Kind.WANTED and r["wish"] == self.identity.wish)
        return next(mine, None)

    @property
    def later(self) -> list[Record]:
        """The wishes since, for anything."""
        mine = self.wish
        return [r for r in self.seen.records if mine is not None and r.kind == Kind.WANTED and r.seq > mine.seq]


@dataclass(frozen=True)
class Wish:
    """A plan, and whether what its task wants is so."""

    plan: Plan
    met: Callable[[Ended], bool]

    def __call__(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        return self.plan(snapshot, identity, outcome)


def wished(ended: Ended) -> bool:
    """Done: what was wished is so. It does not give up a release of which a driver was only lost."""
    wish, state = ended.wish, ended.state
    if wish is None or not isinstance(ended.step, Done):
        return not isinstance(ended.step, GiveUp) or wish is None or not _only_lost(ended, family_of(wish))
    if ended.step.result.get("adopted") is False:  # a person is asked to end the job, and the follower stands by
        return bool(ended.seen.candidate(ended.step.result["deployment"]))
    if wish["goal"] in ("stop", "leave"):
        asked = {r["wish"] for r in ended.later if r["goal"] == "stand_by"}
        left = [d for d in state.deployments.values() if not d.ended and d.family not in asked]
        return state.holder is None and not left
    held = state.holding_deployment
    if wish["goal"] == "hold":
        fresh = held is not None and (not wish.get("alone") or held.declared.seq > wish.seq)
        return held is not None and held.family == family_of(wish) and fresh
    mine = [d for d in state.family(family_of(wish)) if ended.seen.candidate(d.id) or ended.seen.holds(d.id)]
    return any(ended.seen.submission(d.id) == d.submission for d in mine)


def replaced_by(ended: Ended) -> Record | None:
    """The wish that counts in place of the task's own: for a standby too, if its own is; None: its own counts."""
    mine = ended.wish
    if mine is None:
        return None
    governs, candidate = (None, mine) if mine["goal"] == "stand_by" else (mine, None)
    for later in ended.later:
        # What governs anew ends what was to stand by: that holds then, or is not needed.
        governs, candidate = (governs, later) if later["goal"] == "stand_by" else (later, None)
    present = [each for each in (governs, candidate) if each is not None]
    if any(_same(each, mine) for each in present):
        return None
    return present[-1 if mine["goal"] == "stand_by" else 0]


def _same(wish: Record, other: Record) -> bool:
    if {wish["goal"], other["goal"]} <= {"stop", "leave"}:
        return True
    return not {wish["goal"], other["goal"]} & {"stop", "leave"} and family_of(wish) == family_of(other)


def says_truly(ended: Ended) -> bool:
    """Whether the task says that its wish was replaced, by which record and by whom: where it was, and only there."""
    step, now = ended.step, replaced_by(ended)
    says = isinstance(step, GiveUp) and "by" in step.error.fields
    if ended.identity.wish in ended.state.forgotten:
        return says  # so long ago that nobody knows any more what it was for
    if ended.wish is None:
        return True
    if now is None:
        return not says
    return isinstance(step, GiveUp) and says and f"record {now.seq}, by {now.by}" in step.error.message


def rolled_back(ended: Ended) -> bool:
    """As `wished`; and it is skipped only where a roll-back is wished for already."""
    state = ended.state
    return wished(ended) and (not isinstance(ended.step, Skip) or (state.wish is not None and state.wish.back))


def _only_lost(ended: Ended, family: str) -> bool:
    """Whether nothing but the loss of a driver has befallen a family since it was wished for, and not too often."""
    state, wish = ended.state, ended.wish
    since = [d for d in state.family(family) if wish is not None and d.declared.seq > wish.seq and d.ended]
    word = any(isinstance(r.get("evidence"), dict) and "person" in r["evidence"] for r in ended.seen.records)
    drivers = [i for d in since for i in state.of_deployment(d.id)]
    lost = all(i.state is IncarnationState.FENCED and not i.epoch for i in drivers)
    present = replaced_by(ended) is None and state.holder is None and not word
    return bool(drivers) and lost and present and 0 < len(since) < TRIES and len(drivers) >= len(since)


def retired(deployment: Callable[[StreamState], str]) -> Callable[[Ended], bool]:
    """Done: the deployment has ended."""

    def met(ended: Ended) -> bool:
        name = deployment(ended.state)
        return not isinstance(ended.step, Done) or not name or bool(ended.state.deployments[name].ended)

    return met
