"""Random legal logs of a stream: records that may follow each other, and heartbeats of its drivers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from airflow_stream_provider.lifecycle.errors import RuleBroken
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import check, is_adopting
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.choice import coming_up
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import silence_limit
from tests.support.story import hash_of

JOB = "driver-of-somebody"
# The heartbeat of a driver that lives is a second old; of one that does not, so old.
LOST_SECONDS = 500.0


@dataclass(frozen=True)
class _Next:
    """Records of which some may follow a state."""

    state: StreamState
    rng: random.Random
    at: float

    def all(self) -> list[Record]:
        if self.state.seq == 0 and self.rng.random() < 0.15:
            return [self._wish("hold", release=self._release, policy={"adopts": True}, adopts=True)]
        found = [*self._wishes(), *self._deployments(), *self._drivers(), *self._of_request()]
        found.sort(key=lambda each: self.rng.random() * _RARELY.get(each.kind, 1.0))
        return found

    def _one(self, kind: str, **fields: Any) -> Record:
        by = self.rng.choice(("airflow:d/r/t", "person:anna@e/now/stop"))
        return Record(kind, fields, by=by, at=self.at)

    def _wish(self, goal: str, **fields: Any) -> Record:
        return self._one("wanted", wish=f"w{self.state.seq}", goal=goal, reason="why", **fields)

    def _rarely(self, chance: float = 0.2) -> bool:
        return self.rng.random() < chance

    @property
    def _release(self) -> dict[str, str]:
        version = str(self.state.seq % 3)
        return {"version": version, "hash": hash_of(version)}

    def _adopts(self, family: str) -> bool:
        return self.state.wishes[family].adopts

    def _wishes(self) -> Iterator[Record]:
        for goal in ("hold", "stand_by"):
            yield self._wish(goal, release=self._release, policy={})
            for family in self.state.wishes:
                if self._adopts(family) and (self.state.epoch or goal == "stand_by"):
                    continue  # the stream has run, and follows nothing any more
                more = {"back": True} if self._rarely(0.3) else {"alone": True} if self._rarely() else {}
                yield self._wish(goal, family=family, **more)
        yield self._wish(self.rng.choice(("stop", "leave")))

    def _deployments(self) -> Iterator[Record]:
        state = self.state
        # Else it is a matter of seconds which of many comes up first, and whether the wished one is late by then.
        for family in list(state.wishes)[-3:] if len(coming_up(state)) < 2 else ():
            wish, known = state.wishes[family], state.family(family)
            source = known[-1].declared if known else wish.record
            if source.get("release"):
                follows = self._adopts(family) and not state.has_run(family)
                again = {"again": known[-1].id} if known and not follows else {}
                fields = {"release": source["release"], "policy": source.get("policy") or {}, "family": family}
                yield self._one("declared", deployment=f"orders-{state.seq}", reason="why", **fields, **again)
        for name in state.deployments:
            driver = f"{name}.{state.seq:08x}"
            yield self._one("submitted", deployment=name, submission=f"app-{name}")
            yield self._one("standby", deployment=name, incarnation=driver, queries=[{"name": "a"}])
            if self._rarely(0.3):
                yield self._one("retired", deployment=name, reason="why")

    def _drivers(self) -> Iterator[Record]:
        for name in self.state.incarnations:
            wish, family = self.state.wish, self.state.deployments[deployment_of(name)].family
            if not is_adopting(self.state) or (wish is not None and wish.family == family):
                yield self._request(name)
            if self._rarely():
                yield self._one("fencing", incarnation=name, reason="why")
                yield self._one("fenced", incarnation=name, reason="why", evidence={"driver": "killed"})
            if self._rarely():
                end = self.rng.choice(("completed", "interrupted"))
                fields = {"deployment": deployment_of(name), "incarnation": name, "boundary": end}
                yield self._one("failed", **fields, reason="why", error="")
        if self._rarely(0.3):
            yield self._request(None)
        if self.state.follower and self._rarely(0.5):
            job = self.rng.choice(("", JOB))
            yield self._one("ending", deployment=self.state.follower, job=job, reason="why", expires=self.at + 60)

    def _request(self, to: str | None) -> Record:
        wish = self.rng.choice([*self.state.wishes, ""])
        # Long ago or never: else it is a matter of seconds whether it is aborted first.
        expires = self.at + self.rng.choice((1.0, 1e6))
        return self._one("requested", request=f"r{self.state.seq}", to=to, expires=expires, wish=wish)

    def _of_request(self) -> Iterator[Record]:
        request = self.state.open_request
        if request is None:
            return
        end = self.rng.choice(("completed", "completed", "interrupted"))
        for name in self.state.incarnations:
            yield self._one("ready", request=request.id, incarnation=name)
            yield self._one("released", incarnation=name, request=request.id, to=request.to, boundary=end)
            yield self._one("acquired", incarnation=name, request=request.id, epoch=self.state.epoch + 1)
        if self._rarely():
            yield self._one("aborted", request=request.id, reason="why")


# What brings a stream on comes more often than the rest.
_RARELY = {
    Kind.ACQUIRED: 0.1,
    Kind.RELEASED: 0.15,
    Kind.READY: 0.1,
    Kind.SUBMITTED: 0.3,
    Kind.STANDBY: 0.4,
    Kind.REQUESTED: 0.5,
    Kind.DECLARED: 0.6,
    Kind.FAILED: 2.0,
    Kind.RETIRED: 2.0,
}


def a_log(rng: random.Random) -> Snapshot:
    """Return a stream after a random legal log."""
    state, records, at = StreamState(), [], 1e9
    for _ in range(rng.randrange(0, 45)):
        at += rng.choice((0.5, 2.0, 20.0, 200.0, 4_000.0))
        for each in _Next(state, rng, at).all():
            try:
                check(state, each)
            except RuleBroken:
                continue
            records.append(each.numbered(state.seq + 1))
            state = fold(records[-1:], state)
            break
    return Snapshot("orders", at + rng.choice((5.0, 70.0, 700.0)), state, tuple(records))


def with_heartbeats(found: Snapshot, rng: random.Random) -> tuple[Snapshot, set[str]]:
    """Return it with the heartbeats of its drivers, and those drivers that give no sign of life."""
    lost, beats = set(), {}
    for name, driver in found.state.incarnations.items():
        silent = rng.random() < 0.15
        age = LOST_SECONDS if silent else 1.0
        assert age > silence_limit(found.lease([name])) or not silent
        app = f"app-{driver.deployment}"
        beats[name] = Heartbeat(7, found.at - age, queries=(QueryProgress("a", batch=3),), submission=app)
        if silent and not driver.state.terminal:
            lost.add(name)
    return replace(found, heartbeats=beats), lost
