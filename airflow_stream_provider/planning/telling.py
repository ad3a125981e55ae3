"""Tell a course of events to a person, a sentence for each thing that happens, and what is read again by it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_stream_provider.lifecycle.due_rewind import due_rewind
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Boundary, Kind, Record, evidence_of
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.rewind import at
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import HoldEnd, Request, RequestStage
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.planning.asked import YOU
from airflow_stream_provider.planning.conditions import NextTry, RequestOver, StandbyUp
from airflow_stream_provider.planning.course import ME, Course, Event
from airflow_stream_provider.planning.foreseen import Wanted
from airflow_stream_provider.planning.kept_offsets import kept_offsets
from airflow_stream_provider.planning.snapshot import Snapshot

KILLED = "it is killed, and fenced once the cluster confirms that it is gone."
RESTARTED = (
    "What starts it again (systemd, cron, a supervisor, an operator of Kubernetes) has to be switched off before: two "
    "jobs on one checkpoint damage it."
)
_STANDS_STILL = (
    "Once the logs of the checkpoints stand still, too (5 s; up to a minute after long batches), the driver takes over "
    "and goes on after the last committed batch. If they move on, somebody else writes them: nothing takes over."
)


def tell(course: Course, named: str, wanted: Wanted) -> list[str]:
    """Return what happens, in order.

    :param named: what the wanted release is called, such as "the YAML's"; empty: none is wanted.
    """
    return list(_Telling(course, named, wanted).sentences())


def under_way(request: Request) -> str:
    """Return a sentence on an open request."""
    what = f"The request for {request.to} to hold" if request.to else "A stop"
    by = request.by if request.reason in ("", request.by) else f"{request.by} ({request.reason})"
    return f"{what} is under way, by {by}."


class _Telling:
    def __init__(self, course: Course, named: str, wanted: Wanted) -> None:
        self._course, self._named, self._wanted = course, named, wanted
        self._begun = {r["request"] for r in course.records if r.kind == Kind.REQUESTED}
        self._declared = {r["deployment"] for r in course.records if r.kind == Kind.DECLARED}

    def sentences(self) -> Iterator[str]:
        ended: list[str] = []
        for event in self._course.events:
            if isinstance(event.what, Record) and event.what.kind == Kind.RETIRED:
                ended.append(event.what["deployment"])
                continue
            said = self._sentence(event)
            if said and ended:
                yield _ended(ended)
                ended = []
            if said:
                yield said
        if ended:
            yield _ended(ended)

    def _sentence(self, event: Event) -> str:
        what, before = event.what, event.seen
        if isinstance(what, str):
            about = before.job.about if before.job is not None else ""
            return f"{about or what} is ended by the cluster, which has to confirm that it is gone. {RESTARTED}"
        if isinstance(what, Record):
            return self._of_record(what, before)
        if isinstance(what, RequestOver) and what.request not in self._begun:
            self._begun.add(what.request)
            return f"{under_way(self._course.first.state.requests[what.request])} Its end is waited for first."
        if isinstance(what, NextTry):
            return f"The next try comes in {duration(max(0.0, what.until - self._course.first.at))}."
        comes_up = isinstance(what, StandbyUp) and before.candidate(what.deployment) is not None
        return self._comes_up(what.deployment, before) if comes_up and isinstance(what, StandbyUp) else ""

    def _comes_up(self, name: str, now: Snapshot) -> str:
        found = now.state.deployments[name]
        if name not in self._declared:
            who = f"{name} with {_label(found.release)} comes up already, and rehearses"
        else:
            own = self._named and found.release.hash == self._wanted.hash
            whose = f"{self._named} {self._wanted}" if own else _label(found.release)
            beside = " beside the one that holds" if now.state.holder else " beside the old job" if found.adopts else ""
            who = f"A driver of {whose} is started{beside}. It rehearses"
        if not found.adopts:
            return f"{who} on a clone of the checkpoint."
        return f"{who} on a clone of the checkpoints that the job writes now; if that fails, nothing was touched."

    def _of_record(self, record: Record, before: Snapshot) -> str:
        if record.kind == Kind.RELEASED and record["to"] is None:
            return f"{_boundary(before)} If that is missed, it goes on: ask again."
        if record.kind == Kind.ACQUIRED:
            return self._takes_over(record, before)
        if record.kind == Kind.FENCED:
            return self._fenced(record, before)
        if record.kind == Kind.FAILED:
            return f"{record['deployment']} counts as failed: {record['reason']}"
        if record.kind == Kind.ABORTED and before.state.requests[record["request"]].by.startswith(ME.run):
            return ""  # what was said before is why
        if record.kind == Kind.ABORTED:
            why = "as this replaces the wish that it serves." if ME.run in record["reason"] else record["reason"]
            return f"{under_way(before.state.requests[record['request']])} It is aborted, {why[:1].lower()}{why[1:]}"
        if record.kind == Kind.WANTED:
            first = (
                "A person has to approve it first."
                if record is self._course.records[0]
                else "Then a person has to approve it."
            )
            return first if record.get("approved") == YOU else ""
        person = evidence_of(record).get("person") if record.kind == Kind.REQUESTED else None
        if person is None:
            return ""
        if person == YOU:
            return f"Then you are asked to end the old job, and to say by your name that it is gone. {RESTARTED}"
        return (
            f"The old job counts as gone by the word of {person}; the cluster is not asked. If it still runs, two jobs "
            "write to one checkpoint."
        )

    def _takes_over(self, record: Record, before: Snapshot) -> str:
        state, name = before.state, self._driver(record["incarnation"])
        request = state.requests[record["request"]]
        if state.job is not None:
            return _STANDS_STILL
        if request.stage is not RequestStage.RELEASED or not live_standby(state, request.source):
            return f"{name} takes the stream over, as nobody holds it."
        assert request.source is not None
        within = duration(before.policy(deployment_of(request.source)).boundary_seconds)
        back = state.wish is not None and state.wish.back
        other = "it is killed and fenced" if back else "it goes on, and nothing has changed"
        return (
            f"{name} takes the stream over from {self._driver(request.source)} at a batch boundary, within {within}. "
            f"If that is missed, {other}."
        )

    def _driver(self, name: str) -> str:
        return "The new driver" if deployment_of(name) in self._declared else name

    def _fenced(self, record: Record, before: Snapshot) -> str:
        name, first = record["incarnation"], self._course.first
        if name in before.state.must_fence:
            return f"{name} stopped inside a batch: {KILLED}"
        if name in self._course.silent:
            age = duration(first.at - first.heartbeats[name].at)
            return f"The last sign of life of {name} is {age} old: if it stays silent, {KILLED}"
        why = before.state.incarnations[name].fencing or record["reason"]
        return f"{why.rstrip('.')}: {KILLED}"


def _boundary(before: Snapshot) -> str:
    within = duration(before.policy(before.holding).boundary_seconds)
    return f"{before.state.holder} stops at a batch boundary, within {within}."


def _label(release: Release) -> str:
    return str(Wanted(release.version, release.hash))


def _ended(names: list[str]) -> str:
    return f"Ended, and waited for until the cluster confirms that it is gone: {', '.join(names)}."


# -- what is read again ------------------------------------------------------------------------------------------

NOTHING = "nothing, as every query stops at a batch boundary."
NO_CHANGE = "nothing, as the holder goes on."


def after_fence(snapshot: Snapshot, driver: str) -> str:
    """Return what is read again once this driver is killed, or was."""
    beat = snapshot.heartbeats.get(driver)
    known = [(query.name, query.batch + 1) for query in (beat.queries if beat else ()) if query.batch is not None]
    batches = ", ".join(f"batch {batch} of {name}" for name, batch in known)
    which = f" (by its last heartbeat {batches}, or a later one)" if batches else ""
    return (
        f"the batch that is cut off, if one is under way{which}, as a whole and with the same records. What it has "
        "written already is there twice then, unless the sink skips batches that it has seen." + _owed(snapshot, driver)
    )


def _owed(snapshot: Snapshot, driver: str) -> str:
    """Return what a driver was to read again, as a person had asked, and is not known to have gone back for."""
    beat, due = snapshot.heartbeats.get(driver), due_rewind(snapshot.state, driver)
    if due is None or due.owed or (beat is not None and beat.rewind):
        return ""
    return f" So are the records since {at(due.wanted.to)} that {due.mark} was to read again, unless it had gone back."


def next_start(snapshot: Snapshot) -> str:
    """Return what the next holder reads again after the present one is lost, or while there is none."""
    state, last = snapshot.state, snapshot.state.last_holder
    if state.must_fence:
        return after_fence(snapshot, state.must_fence[0])
    if last is None:
        return "nothing by this stream, as no driver has held it; it goes on from a checkpoint that is there already."
    whole = Boundary.COMPLETED.value
    # Fields of other authors may be anything; see `fold`.
    ends = [end for end in state.ends.values() if isinstance(end, Mapping)]
    clean = bool(ends) and all(end.get("boundary", whole) == whole for end in ends)
    if state.holder is not None or not clean:
        return after_fence(snapshot, last)
    if state.last_end is HoldEnd.FAILED:
        return "the batch that failed, if one did, as a whole and with the same records."
    return "nothing, as every query has stopped at a batch boundary."


def kept(snapshot: Snapshot) -> str:
    """Return which of the next records Kafka has deleted, or is about to; empty: none, or it was not asked."""
    report, last = snapshot.lag, snapshot.state.last_driver
    return "" if report is None or last is None else str(kept_offsets(report, last.queries))
