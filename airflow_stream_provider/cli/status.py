"""How a stream stands: one line for a table, and one exit code."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.bounded import gather
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lag.limits import Health, LagLook
from airflow_stream_provider.lag.report import GroupVerdict
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rules import is_so
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.lifecycle.wish import Goal, Wish
from airflow_stream_provider.monitoring.health import SILENT, SignOfLife, illegal_records, sign_of_life
from airflow_stream_provider.monitoring.incidents import IncidentKind
from airflow_stream_provider.monitoring.life import LifeEvent, life
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.monitoring.samples import last as last_sample
from airflow_stream_provider.planning.choice import version_of
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import judge_queries, judge_run
from airflow_stream_provider.spec.stream import StreamSpec

# A sample of the watch that is older, and older than two looks are apart, says nothing about the present.
STALE_SECONDS = 900.0
# A dead mount lets a read hang for ever: for how long one stream is waited for, and after which none is begun any more.
EACH_SECONDS, ALL_SECONDS = 15.0, 120.0
# Records in which the last event of a stream's life is looked for.
_TAIL = 10


class Code(IntEnum):
    """Exit codes: those of Nagios plugins."""

    WELL = 0
    WARN = 1
    BAD = 2
    UNKNOWN = 3

    @classmethod
    def worst(cls, codes: Iterable[Code]) -> Code:
        """Return the code for several streams; UNKNOWN for none."""
        order = (cls.WELL, cls.WARN, cls.UNKNOWN, cls.BAD)
        return max(codes, key=order.index, default=cls.UNKNOWN)

    @classmethod
    def of(cls, health: Health, verdict: GroupVerdict | str) -> Code:
        """Return the code for a judgement and Burrow's verdict."""
        if health is Health.PASS:
            return cls.WARN if verdict == GroupVerdict.WARN else cls.WELL
        return cls.BAD if health is Health.FAIL else cls.UNKNOWN


@dataclass(frozen=True)
class StreamStatus:
    """A line of `status`.

    :param phase: a StreamPhase, or `silent`; see `sign_of_life`.
    :param sample: the last one of the watch.
    :param problem: why something is unknown.
    :param silent_seconds: age of the driver's last sign of life; None = unknown.
    :param holder: the driver that holds; empty for none.
    :param since: when it came to hold, in seconds since 1970 by its clock; None without a holder.
    :param queries: how the queries of the driver that holds are, by what it says.
    :param event: the last one of the stream's life; None: there was none lately, among the last records.
    :param wanted: what is wished for now, by whom, since when, and whether it is so; empty: there is no wish yet.
    """

    stream: str
    phase: str = ""
    version: str = ""
    sample: LagSample | None = None
    problem: str = ""
    code: Code = Code.UNKNOWN
    silent_seconds: float | None = None
    holder: str = ""
    since: float | None = None
    event: LifeEvent | None = None
    queries: tuple[QueryProgress, ...] = ()
    wanted: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the line as a JSON object."""
        return {
            "stream": self.stream,
            "phase": self.phase,
            "silent_seconds": self.silent_seconds,
            "version": self.version,
            "holder": self.holder,
            "since": self.since,
            "event": self.event.to_json() if self.event else None,
            "wanted": self.wanted,
            "queries": {query.name: query.health.to_json() if query.health else None for query in self.queries},
            "lag": self.sample.to_json() if self.sample else None,
            "problem": self.problem,
            "code": int(self.code),
        }


def statuses(specs: Sequence[StreamSpec | SpecError]) -> list[StreamStatus]:
    """Return the status of each; of a stream whose control root does not answer in time, that."""
    reads = {number: partial(status_of, spec) for number, spec in enumerate(specs)}
    found = gather(reads, ALL_SECONDS, EACH_SECONDS)
    return [
        each if isinstance(each, StreamStatus) else StreamStatus(_name(specs[number]), problem=str(each))
        for number, each in found.items()
    ]


def _name(spec: StreamSpec | SpecError) -> str:
    return spec.name if isinstance(spec, StreamSpec) else Path(str(spec.fields.get("file", "?"))).stem


def status_of(spec: StreamSpec | SpecError) -> StreamStatus:
    """Return the status of a stream by its control log and the last sample of its watch; UNKNOWN for a broken YAML.

    Whatever goes wrong is the line of this stream, and hides no other one.
    """
    if isinstance(spec, SpecError):
        return StreamStatus(_name(spec), problem=str(spec))
    try:
        return read_status(spec, StreamHook.of(spec))
    except StreamError as error:
        return StreamStatus(spec.name, problem=str(error))
    except Exception as error:  # noqa: BLE001 - what lies in a control folder may break this in ways not thought of
        return StreamStatus(spec.name, problem=f"Its status is unknown: {error!r}.")


def read_status(spec: StreamSpec, hook: StreamHook) -> StreamStatus:
    """Return the status now, by the open hook of the stream: of its log, what is new is read.

    :raises StreamError: the control log cannot be read now.
    """
    log = hook.control_log
    state, last = log.refresh(), last_sample(hook.samples)
    beats, unreadable = _last_heartbeat(log, state.last_holder)
    hook.check_newest(beats)
    since, event = _since(log, state), next(reversed(life(log.history(_TAIL), log.state)), None)
    found = Snapshot(spec.name, time.time(), log.state, heartbeats=beats)
    return _status(spec, found, last, unreadable, since, event)


def _status(
    spec: StreamSpec,
    found: Snapshot,
    last: LagSample | None,
    unreadable: str,
    since: float | None,
    event: LifeEvent | None,
) -> StreamStatus:
    state = found.state
    sign = SignOfLife(state.phase.value) if unreadable else sign_of_life(found, last)
    held = state.holding_deployment
    version = held.release.version if held else ""
    stale = _stale(spec, last) if last and state.phase is StreamPhase.RUNNING else ""
    if unreadable:
        code = Code.UNKNOWN
    elif sign.phase == SILENT or _is_down(found, sign):
        code = Code.BAD
    elif state.phase is not StreamPhase.RUNNING:
        code = Code.WELL
    elif last and not stale:
        code = code_of_sample(spec, last)
    else:
        code = Code.UNKNOWN if spec.kafka else Code.WELL
    queries = judge_queries(found)
    if queries.ill:
        code = Code.BAD
    beat = found.holder_heartbeat
    late, left, notes = _late(found, sign), beat.left_undone if beat else "", _notes(beat)
    # The trouble of a holder. A standby has its activity there.
    ill = " ".join(map(str, queries.ill)) or (beat.message if beat else "")
    said = (unreadable, late, ill, notes, illegal_records(state), left, last.problem if last else "", stale)
    problems = [problem for problem in said if problem]
    if state.illegal_count or left or late or notes:
        code = Code.worst((code, Code.WARN))
    return StreamStatus(
        spec.name,
        sign.phase,
        version,
        last,
        " ".join(problems),
        code,
        silent_seconds=sign.silent_seconds,
        holder=state.holder or "",
        since=since,
        event=event,
        queries=beat.queries if beat else (),
        wanted=wanted(state),
    )


_SHALL = {
    Goal.HOLD: "is to hold the stream",
    Goal.STAND_BY: "is to stand by",
    Goal.STOP: "No driver is to hold the stream",
    Goal.LEAVE: "No driver is to hold the stream any more",
}


def wanted(state: StreamState) -> str:
    """Return what is wished for now, by whom, since when (UTC), and whether it is so; a sentence for each wish."""
    return " ".join(_wanted(state, each) for each in (state.wish, state.candidate) if each is not None)


def _wanted(state: StreamState, wish: Wish) -> str:
    since = datetime.fromtimestamp(wish.at, UTC)
    subject = "" if wish.goal.rest else f"Release {version_of(state, wish.family)} "
    how = "and it is so" if is_so(state, wish) else "and it is not so yet"
    return f"{subject}{_SHALL[wish.goal]}, by {wish.author}, since {since:%Y-%m-%d %H:%M:%S} UTC, {how}."


def _is_down(found: Snapshot, sign: SignOfLife) -> bool:
    """Whether no driver runs it, also while a request is open: the holder is lost, or the request has expired."""
    state, request = found.state, found.state.open_request
    if state.holder is not None:
        return judge_run(found, sign.silent_seconds).health is Health.FAIL
    expired = request is not None and found.at > request.expires
    return expired or state.phase in (StreamPhase.FAILED, StreamPhase.DOWN)


def _notes(beat: Heartbeat | None) -> str:
    """Return what its driver says of queries for the rest of its hold; people were told of it at once."""
    found = (query.health.note for query in beat.queries if query.health) if beat else ()
    return " ".join(note for note in found if note)


def _late(found: Snapshot, sign: SignOfLife) -> str:
    """Return a sentence when the holder has given no sign of life for longer than its lease; it is not lost yet."""
    age, holder = sign.silent_seconds, found.state.holder
    lease = found.lease([holder]) if holder else 0.0
    if sign.phase != StreamPhase.RUNNING or age is None or age < lease:
        return ""
    return f"Its driver has given no sign of life for {duration(age)}, longer than its lease of {duration(lease)}."


def _since(log: ControlLog, state: StreamState) -> float | None:
    data = log.store.read(state.held_from) if state.holder else None
    return None if data is None else Record.read(data, state.held_from).at


def _stale(spec: StreamSpec, last: LagSample) -> str:
    """Return a sentence when the last sample is too old to say how the stream is; empty when it is not."""
    age, allowed = time.time() - last.at, max(STALE_SECONDS, 2 * (spec.watch.schedule or 0.0))
    if age < allowed:
        return ""
    return f"The last sample of the watch is {age:.0f} s old, and says nothing of now: is the watch paused?"


def _last_heartbeat(log: ControlLog, incarnation: str | None) -> tuple[dict[str, Heartbeat], str]:
    """Return the heartbeat of one driver, by its name, and why it cannot be read."""
    try:
        beat = log.heartbeat(incarnation) if incarnation else None
    except StreamError as error:
        return {}, str(error)
    return ({incarnation: beat} if incarnation and beat else {}), ""


def code_of_look(spec: StreamSpec, look: LagLook) -> Code:
    """Return the code for a look at the lag."""
    return Code.of(look.judge(spec.lag.limits).health, look.report.verdict if look.report else GroupVerdict.UNKNOWN)


def code_of_sample(spec: StreamSpec, sample: LagSample) -> Code:
    """Return the code for a sample of the watch."""
    if sample.phase in (StreamPhase.EMPTY, StreamPhase.STOPPED, StreamPhase.FINISHED):
        return Code.WELL
    if sample.open_incidents.keys() & {IncidentKind.DOWN, IncidentKind.LAG, IncidentKind.QUERY}:
        return Code.BAD
    if not spec.kafka:
        return Code.WELL
    warned = any(query.verdict == GroupVerdict.WARN for query in sample.queries.values())
    health = Health.PASS if sample.good else sample.health
    return Code.of(health, GroupVerdict.WARN if warned else GroupVerdict.OK)
