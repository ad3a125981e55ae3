"""A stream's life: what the records of its control log tell, as a list of events. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from airflow_stream_provider.hooks.about_drivers import gaps
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Boundary, Kind, Record, evidence_of
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.rewind import WantedRewind, at
from airflow_stream_provider.lifecycle.state import IllegalRecord, Request, StreamState
from airflow_stream_provider.lifecycle.wish import Goal
from airflow_stream_provider.monitoring.incidents import Stored
from airflow_stream_provider.planning.snapshot import Snapshot


class What(StrEnum):
    """The kinds of events."""

    WANTED = "wanted"  # somebody wishes something for the stream
    DEPLOYED = "deployed"  # a release was declared; its driver comes up beside the holder
    DEPLOYED_AGAIN = "deployed_again"  # one that ran before was, by the watch or a roll-back
    STOOD_BY = "stood_by"  # a driver is up and has rehearsed
    REFUSED = "refused"  # a driver failed in its rehearsal
    ASKED = "asked"  # somebody asked for another holder, or for a stop, and that has not happened (yet)
    STARTED = "started"  # a driver holds, and none was to hold before
    ADOPTED = "adopted"  # a driver holds, and follows a job that ran without a stream
    HANDED_OVER = "handed_over"  # it took the stream over from another one
    ROLLED_BACK = "rolled_back"  # its release is the one that held before
    REVIVED = "revived"  # a driver holds, after the stream had lost its holder
    TAKEN_BACK = "taken_back"  # the standby did not acquire in time: the old holder holds again
    ABORTED = "aborted"  # what was asked for is given up
    ENDING = "ending"  # somebody has begun to end a job without a stream, or to ask for its end
    STOPPED = "stopped"  # no driver holds, as wished
    RELEASED = "released"  # the holder gave the stream up, and no other one has taken it over
    FAILED = "failed"
    FINISHED = "finished"
    FENCING = "fencing"  # somebody has begun to kill a driver
    FENCED = "fenced"  # it is confirmed dead
    RETIRED = "retired"  # a deployment that did not hold was ended
    ILLEGAL = "illegal"  # a record that broke a rule: no driver obeys it
    UNKNOWN = "unknown"  # a record of a kind that a later version has written

    @property
    def words(self) -> str:
        """Shown to people."""
        return self.replace("_", " ")


@dataclass(frozen=True)
class LifeEvent(Stored):
    """One event.

    :param seq: number of the record that decided it.
    :param what: see `What`.
    :param at: seconds since 1970, by the clock of the record's author; None = not known (an illegal record).
    :param by: the author of the wish that has come true, or else of the record.
    :param reason: why, for people; empty where the record holds none, or only its author's name.
    :param deployment: that it is about; empty for none.
    :param incarnation: its driver; empty while it has none.
    :param version: label of its release; empty if that is not known any more.
    :param release: hash of its release.
    :param before: of a change of holder, the driver that held before; else empty.
    :param free_seconds: of a change of holder, the time without a holder, by the clocks of the two drivers.
    :param gap_seconds: of a change of holder, the gap of each query (`hooks.about_drivers.gaps`), as far as it can
        still be told.
    :param evidence: of a fence, what was found; of an adoption, by what the old job was gone, and of its end, which
        one it is (`job` is its id on the cluster). `person` is who confirmed it.
    :param replaces: of a wish, the number of the one that counted until then; 0: there was none.
    """

    seq: int
    what: What
    at: float | None = None
    by: str = ""
    reason: str = ""
    deployment: str = ""
    incarnation: str = ""
    version: str = ""
    release: str = ""
    before: str = ""
    free_seconds: float | None = None
    gap_seconds: Mapping[str, float] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    replaces: int = 0


# These say how far something has come that has an event of its own.
_STEPS = (Kind.SUBMITTED, Kind.READY)


def life(records: Sequence[Record], state: StreamState) -> list[LifeEvent]:
    """Return the events that these records tell, oldest first.

    A request that came true is one event, with its author and reason, at the record that made it true. One that did not
    is an event of its own (`asked`), and so is its end. The time before the first record is known from `state` only, so
    the first events of a log that was cut off may have a more general word.

    :param records: the last legal ones, without a gap (`ControlLog.history`).
    :param state: after the last of them.
    """
    first = records[0].seq if records else state.seq + 1
    events = [*_Reader(records, state).events(), *(_illegal(each) for each in state.illegal if each.seq >= first)]
    return sorted(events, key=lambda event: event.seq)


class _Reader:
    """Follows the records, and keeps the holder, how the last hold ended, and the open request."""

    def __init__(self, records: Sequence[Record], state: StreamState) -> None:
        self._records = records
        self._state = state
        self._declared_here: dict[str, Record] = {}
        self._announced_here: set[str] = set()
        self._releases = {name: each.release for name, each in state.deployments.items()}
        # By deployment, which one held before it first did.
        self._previous = {name: each.previous for name, each in state.deployments.items() if each.previous is not None}
        # Those from before the first record have the number 0.
        self._requests = {name: _as_record(each) for name, each in state.requests.items()}
        self._open: Record | None = None
        # The event of the open request unless it comes true.
        self._pending: list[LifeEvent] = []
        self._holder = self._last_holder = _first_holder(records, state)
        # The record that ended the last hold, and whether a driver that holds later was started: it was wished since.
        self._freed: Record | None = None
        self._rests = True
        # The wishes by id, what governs who holds, and what is to stand by.
        self._wishes = {name: each.record for name, each in state.wishes.items()}
        self._wish: Record | None = None
        self._candidate: Record | None = None
        for each in state.wishes.values():
            if records and each.seq < records[0].seq:
                self._counts(each.record)

    def events(self) -> Iterator[LifeEvent]:
        """Yield the events; those of a request that did not come true late."""
        for record in self._records:
            tell = _TELL.get(record.kind)
            if tell is not None:
                yield from tell(self, record)
            elif record.kind not in _STEPS:
                why = f"A later version has written a record of the kind {record.kind!r:.50}, unknown to this one."
                yield self._event(record, What.UNKNOWN, "", reason=why, incarnation="")
        yield from self._pending

    def _wanted(self, r: Record) -> Iterator[LifeEvent]:
        goal = Goal(r["goal"])
        before = self._candidate if goal is Goal.STAND_BY else self._wish
        self._wishes[r["wish"]] = r
        self._counts(r)
        named = self._wishes.get(r.get("family") or "", r).get("release")
        release = None if named is None or goal.rest else Release.from_json(named)
        self._rests = self._rests or self._holder is None
        what = What.STOPPED if goal.rest and self._holder is None else What.WANTED
        said = {"reason": _wish_reason(r, release), "replaces": before.seq if before is not None else 0}
        found = self._event(r, what, "", incarnation="", **said)
        yield found if release is None else replace(found, version=release.version, release=release.hash)

    def _declared(self, r: Record) -> Iterator[LifeEvent]:
        self._declared_here[r["deployment"]] = r
        self._releases.setdefault(r["deployment"], Release.from_json(r["release"]))
        origin = self._wishes.get(r.get("family") or "")
        again = r.get("again") or (origin is not None and origin.get("redeployed"))
        yield self._event(
            r,
            What.DEPLOYED_AGAIN if again else What.DEPLOYED,
            r["deployment"],
            reason=f"{_rewind(r)}{_reason(r)}".strip(),
        )

    def _standby(self, r: Record) -> Iterator[LifeEvent]:
        self._announced_here.add(r["incarnation"])
        yield self._event(r, What.STOOD_BY, r["deployment"])

    def _requested(self, r: Record) -> Iterator[LifeEvent]:
        yield from self._pending  # none is left of a request that has ended
        self._requests[r["request"]] = self._open = r
        subject = r.get("to") or self._holder or ""
        shall = "stop" if r.get("to") is None else "hold the stream"
        why = f"{deployment_of(subject)} shall {shall}: {_reason(r) or 'no reason given'}"
        self._pending = [self._event(r, What.ASKED, deployment_of(subject), incarnation=subject, reason=why)]

    def _released(self, r: Record) -> Iterator[LifeEvent]:
        asked = r.get("request") is not None
        if asked:
            self._open = self._requests.get(r["request"])
        why = "" if asked else "Nobody asked for it: its driver was told to end, as its host or cluster does (SIGTERM)."
        if r["boundary"] == Boundary.INTERRUPTED.value:
            why = f"{why} It stopped inside a batch.".strip()
        event = self._event(r, What.RELEASED, deployment_of(r["incarnation"]), reason=why)
        if asked:
            self._pending.append(event)
        else:
            yield event
        yield from self._free(r["incarnation"], r)

    def _acquired(self, r: Record) -> Iterator[LifeEvent]:
        name, request = r["incarnation"], self._requests.get(r["request"])
        new, old = deployment_of(name), deployment_of(self._last_holder or "")
        free = None if self._freed is None else round(max(0.0, r.at - _dead_since(self._freed)), 3)
        said: dict[str, Any] = {"before": self._last_holder or "", "free_seconds": free}
        if self._appointed(r) not in (None, name):
            yield from self._pending
            what, said["reason"] = What.TAKEN_BACK, "The standby did not take over in time."
        else:
            what = self._came_to_hold(request, old, new)
            if request is not None:
                by = request.by if what is What.REVIVED else self._author(request)
                said |= {"by": by, "reason": _reason(request), "evidence": dict(evidence_of(request))}
        yield self._event(r, what, new, **said)
        self._previous.setdefault(new, old)
        self._holder = self._last_holder = name
        self._freed, self._open, self._pending = None, None, []

    def _aborted(self, r: Record) -> Iterator[LifeEvent]:
        yield from self._pending
        subject = self._appointed(r) or self._holder or ""
        yield self._event(r, What.ABORTED, deployment_of(subject), incarnation=subject)
        self._open, self._pending = None, []

    def _failed(self, r: Record) -> Iterator[LifeEvent]:
        name = r.get("incarnation")
        refused = name is not None and name not in self._announced_here and r["deployment"] in self._declared_here
        error = r.get("error") or ""
        message = error.partition(": ")[2] or error
        why = r["reason"] if not message or message in r["reason"] else f"{r['reason'].rstrip('.')}: {message}"
        yield self._event(r, What.REFUSED if refused else What.FAILED, r["deployment"], reason=why)
        yield from self._free(name, r)

    def _finished(self, r: Record) -> Iterator[LifeEvent]:
        yield self._event(r, What.FINISHED, deployment_of(r["incarnation"]), reason="Its queries ended by themselves.")
        yield from self._free(r["incarnation"], r, rests=True)

    def _fencing(self, r: Record) -> Iterator[LifeEvent]:
        yield self._event(r, What.FENCING, deployment_of(r["incarnation"]))

    def _fenced(self, r: Record) -> Iterator[LifeEvent]:
        evidence = r["evidence"] if isinstance(r["evidence"], Mapping) else {"found": r["evidence"]}
        yield self._event(r, What.FENCED, deployment_of(r["incarnation"]), evidence=evidence)
        yield from self._free(r["incarnation"], r)

    def _retired(self, r: Record) -> Iterator[LifeEvent]:
        yield self._event(r, What.RETIRED, r["deployment"])

    def _ending(self, r: Record) -> Iterator[LifeEvent]:
        yield self._event(r, What.ENDING, r["deployment"], evidence={"job": r["job"]} if r.get("job") else {})

    def _free(self, name: str | None, r: Record, *, rests: bool = False) -> Iterator[LifeEvent]:
        """If this driver held, the stream has no holder from here on: an open request to stop has then come true."""
        if name is None or self._holder != name:
            return
        self._holder, self._freed, self._rests = None, r, rests
        request, wish = self._open, self._wish
        stop = request if request is not None and request.get("to") is None else None
        rest = wish is not None and Goal(wish["goal"]).rest
        asked = stop or (wish if rest else None)
        if asked is None:
            return
        why = _reason(asked) if rest or wish is None else f"To start it again. {_reason(asked)}".rstrip()
        yield self._event(r, What.STOPPED, deployment_of(name), by=self._author(asked), reason=why, incarnation=name)
        self._rests = True
        if stop is not None:
            self._open, self._pending = None, []

    def _counts(self, wish: Record) -> None:
        """Note that this wish counts from here on."""
        if Goal(wish["goal"]) is Goal.STAND_BY:
            self._candidate = wish
        else:
            self._wish, self._candidate = wish, None

    def _author(self, r: Record) -> str:
        """The author of the wish that a request serves; of the request itself, where none is known."""
        wish = self._wishes.get(r.get("wish") or "")
        return r.by if wish is None else wish.by

    def _came_to_hold(self, request: Record | None, old: str, new: str) -> What:
        if request is not None and evidence_of(request):
            return What.ADOPTED
        # A holder that loses the stream after a request to release it counts as having handed it over.
        replaced = self._freed is not None and request is not None and request.seq < self._freed.seq
        wish = self._wishes.get(request.get("wish") or "") if request is not None else None
        if wish is not None and wish.get("back") and not self._state.akin(old, new):
            return What.ROLLED_BACK
        if self._goes_back(old, new) and (replaced or not self._rests):
            return What.ROLLED_BACK
        if replaced or self._holder is not None:
            return What.HANDED_OVER
        return What.STARTED if self._rests else What.REVIVED

    def _goes_back(self, old: str, new: str) -> bool:
        """Whether a deployment has the release that held before another one did."""
        releases = self._releases.get(old), self._releases.get(new)
        return self._previous.get(old) == new and releases[0] != releases[1]

    def _appointed(self, r: Record) -> str | None:
        """The driver that a record's request appoints; None where it asks for a stop, or is not known any more."""
        request = self._requests.get(r["request"])
        return None if request is None else request.get("to")

    def _event(self, r: Record, what: What, deployment: str, **more: Any) -> LifeEvent:
        release = self._releases.get(deployment)
        said = {"by": r.by, "reason": _reason(r), "incarnation": r.get("incarnation") or "", **more}
        version, hash = (release.version, release.hash) if release else ("", "")
        return LifeEvent(r.seq, what, r.at, deployment=deployment, version=version, release=hash, **said)


def _first_holder(records: Sequence[Record], state: StreamState) -> str | None:
    """Return the holder before the first record, as far as the records tell."""
    for record in records:
        if record.kind == Kind.ACQUIRED:
            return None
        if record.kind in (Kind.RELEASED, Kind.FINISHED):
            return str(record["incarnation"])
    return state.holder


def _reason(r: Record) -> str:
    # An author that got no reason from a person has written its own name there.
    reason = r.get("reason") or ""
    return "" if reason == r.by else reason


_SHALL = {
    Goal.HOLD: "shall hold the stream",
    Goal.STAND_BY: "shall stand by",
    Goal.STOP: "No driver shall hold the stream",
    Goal.LEAVE: "No driver shall hold the stream any more",
}


def _wish_reason(wish: Record, release: Release | None) -> str:
    """Return what somebody wishes, and why, as a sentence."""
    goal = Goal(wish["goal"])
    subject = "" if goal.rest else f"Release {release.version if release else wish.get('family')} "
    after = " again" if wish.get("back") else " once the holder has stopped" if wish.get("alone") else ""
    return f"{_rewind(wish)}{subject}{_SHALL[goal]}{after}: {_reason(wish) or 'no reason given'}"


def _rewind(r: Record) -> str:
    """Return since when records are read again; empty when none are, or it is not known."""
    if r.get("rewind") is None:
        return ""
    try:
        return f"Reads records again since {at(WantedRewind.from_json(r['rewind']).to)}. "
    except SpecError:
        return ""


def _dead_since(freed: Record) -> float:
    """Return since when the stream has no driver: a fenced driver had died before its end was confirmed."""
    last = evidence_of(freed).get("last_sign")
    return min(freed.at, last) if isinstance(last, (int, float)) else freed.at


def _as_record(request: Request) -> Record:
    fields = {"request": request.id, "to": request.to, "reason": request.reason, "wish": request.wish}
    return Record(Kind.REQUESTED, fields, by=request.by)


def _illegal(found: IllegalRecord) -> LifeEvent:
    why = f"A record of the kind {found.kind!r} broke the rule {found.rule!r}: nobody obeys it."
    return LifeEvent(found.seq, What.ILLEGAL, reason=why)


_TELL: Mapping[str, Callable[[_Reader, Record], Iterator[LifeEvent]]] = {
    Kind.DECLARED: _Reader._declared,
    Kind.STANDBY: _Reader._standby,
    Kind.REQUESTED: _Reader._requested,
    Kind.RELEASED: _Reader._released,
    Kind.ACQUIRED: _Reader._acquired,
    Kind.ABORTED: _Reader._aborted,
    Kind.FAILED: _Reader._failed,
    Kind.FINISHED: _Reader._finished,
    Kind.FENCING: _Reader._fencing,
    Kind.FENCED: _Reader._fenced,
    Kind.RETIRED: _Reader._retired,
    Kind.WANTED: _Reader._wanted,
    Kind.ENDING: _Reader._ending,
}


def with_gaps(snapshot: Snapshot, events: Iterable[LifeEvent]) -> list[LifeEvent]:
    """Return the events with their gaps.

    No record holds a gap: they are measured by the commits that Spark keeps, about the last 100 of each query, or told
    by the driver that holds. So those of long ago are not known.
    """
    # The checkpoints of a driver that the state has left out are not known.
    known = snapshot.state.incarnations
    acquired = {r.seq: r for r in snapshot.acquisitions() if r["incarnation"] in known}
    return [
        replace(event, gap_seconds=gaps(snapshot, acquired[event.seq])) if event.seq in acquired else event
        for event in events
    ]
