"""The request of a person, the look at its stream, and the sentences that all operations share. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_stream_provider.lifecycle.due_rewind import due_rewind
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Boundary
from airflow_stream_provider.lifecycle.rewind import at
from airflow_stream_provider.lifecycle.state import HoldEnd, Incarnation, Request
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.planning.begun import FOLLOW_FIRST, job_first
from airflow_stream_provider.planning.foreseen import Foreseen, Held, Wanted
from airflow_stream_provider.planning.kept_offsets import kept_offsets
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import silence_limit


@dataclass(frozen=True)
class Asked:
    """The request of a person; see `foresee` for the fields."""

    snapshot: Snapshot
    operation: Operation
    wanted: Wanted
    confirmed_by: str = ""
    since: float | None = None
    job: str = ""

    def refused(self, why: str) -> Foreseen:
        """Return that it cannot be done."""
        return replace(self._now, refused=why)

    def done(self, why: str) -> Foreseen:
        """Return that it is done already."""
        return replace(self._now, done=why)

    def will(self, *sentences: str, reads_again: str, deployment: str = "", release: str = "") -> Foreseen:
        """Return what will be done."""
        again = " ".join(filter(None, (reads_again, self._kept)))
        return replace(
            self._now,
            will=sentences,
            reads_again=again,
            parts=(self.operation,),
            deployment=deployment,
            release=release,
        )

    @property
    def _kept(self) -> str:
        """The records to read next that Kafka has deleted, or is about to; empty when it has all, or was not asked."""
        report, last = self.snapshot.lag, self.snapshot.state.last_driver
        return "" if report is None or last is None else str(kept_offsets(report, last.queries))

    @property
    def held(self) -> Held | None:
        """The holder of the stream, or the last one."""
        driver = self.snapshot.state.last_holder
        known = self.snapshot.state.deployments.get(deployment_of(driver or ""))
        return Held(driver, known.id, known.release.version, known.release.hash) if driver and known else None

    @property
    def silent(self) -> bool:
        """Whether the holder seems lost, by the clocks of both machines: for people."""
        age = self.snapshot.silent_seconds
        return age is not None and age > silence_limit(self.snapshot.policy(self.snapshot.holding).lease_seconds)

    def lost(self, driver: Incarnation | None) -> str:
        """Return that a standby seems lost, by the clocks of both machines; empty when it does not."""
        beat = self.snapshot.heartbeats.get(driver.id) if driver is not None else None
        if driver is None or beat is None or not beat.at:
            return ""
        age = max(0.0, self.snapshot.at - beat.at)
        over = age > silence_limit(self.snapshot.lease([driver.id]))
        return f"{driver.id} was last heard of {duration(age)} ago." if over else ""

    @property
    def beside_a_job(self) -> str:
        """Why no other driver may be brought up: a job without a stream is to be followed; empty when none is."""
        job = job_first(self.snapshot.state)
        return f"{job} {FOLLOW_FIRST}" if job else ""

    @property
    def first(self) -> list[str]:
        """The steps before anything else, a sentence each."""
        state, request = self.snapshot.state, self.snapshot.state.open_request
        said = [f"{under_way(request)} Its end is waited for first."] if request is not None else []
        said += [f"{name} stopped inside a batch: it is killed and fenced first." for name in state.must_fence]
        if state.holder is not None and self.silent:
            said.append(
                f"Its last sign of life is {duration(self.snapshot.silent_seconds)} old: if it stays silent it is "
                "killed, and fenced once the cluster confirms that it is gone."
            )
        return said

    @property
    def _now(self) -> Foreseen:
        """How the stream stands; what will be done is left open."""
        state = self.snapshot.state
        return Foreseen(self.snapshot.stream, self.operation, state.phase.value, self.held, state.holder is not None)


def under_way(request: Request) -> str:
    """Return a sentence on an open request."""
    what = f"The request for {request.to} to hold" if request.to else "A stop"
    return f"{what} is under way, by {author(request)}."


def author(request: Request) -> str:
    """Return who made a request, and why as far as he said so."""
    return request.by if request.reason in ("", request.by) else f"{request.by} ({request.reason})"


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
