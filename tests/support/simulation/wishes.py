"""What a task must have reached by the log when it says that it is done, whoever else did what meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Done, GiveUp, Skip, Step, TaskIdentity
from airflow_stream_provider.planning.waits import WaitOutcome

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
    """Done: what was wished is so. It says that another wish has replaced its own only where one has."""
    wish, state = ended.wish, ended.state
    if isinstance(ended.step, GiveUp) and "by" in ended.step.error.fields and wish is not None:
        return bool(ended.later)
    if wish is None or not isinstance(ended.step, Done):
        return True
    if ended.step.result.get("adopted") is False:  # a person is asked to end the job, and the follower stands by
        return bool(ended.seen.candidate(ended.step.result["deployment"]))
    family = wish.get("family") or wish["wish"]
    if wish["goal"] in ("stop", "leave"):
        asked = {r["wish"] for r in ended.later if r["goal"] == "stand_by"}
        left = [d for d in state.deployments.values() if not d.ended and d.family not in asked]
        return state.holder is None and not left
    held = state.holding_deployment
    if wish["goal"] == "hold":
        fresh = held is not None and (not wish.get("alone") or held.declared.seq > wish.seq)
        return held is not None and held.family == family and fresh
    mine = [d for d in state.family(family) if ended.seen.candidate(d.id) or ended.seen.holds(d.id)]
    return any(ended.seen.submission(d.id) == d.submission for d in mine)


def rolled_back(ended: Ended) -> bool:
    """As `wished`; and nothing is skipped while what is to be taken back holds, and another one held before."""
    return wished(ended) if not isinstance(ended.step, Skip) else True


def retired(deployment: Callable[[StreamState], str]) -> Callable[[Ended], bool]:
    """Done: the deployment has ended."""

    def met(ended: Ended) -> bool:
        name = deployment(ended.state)
        return not isinstance(ended.step, Done) or not name or bool(ended.state.deployments[name].ended)

    return met
