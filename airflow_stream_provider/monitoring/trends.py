"""Trends of the vitals that have a limit, by the looks since a driver came to hold: when it is reached. Pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.lifecycle.vitals import Vitals
from airflow_stream_provider.monitoring.incidents import Stored, Symptom
from airflow_stream_provider.planning.snapshot import Snapshot

# Points of a trace. One that has more loses every other one, so that it covers any time.
POINTS = 48
# Series of a trace: each query has some.
SERIES = 40
# No trend is told of fewer points, or of a shorter time.
LEAST_POINTS, LEAST_SECONDS = 16, 1800.0
# Nor one that most pairs of points do not show, or that reaches further ahead than so many times what was seen.
AGREE, REACH = 0.75, 20.0
# People are told of what runs out in less than this.
AHEAD_SECONDS = 14 * 86400.0


@dataclass(frozen=True)
class Trace(Stored):
    """The looks at one driver that holds, thinned out: points ever further apart.

    :param driver: its incarnation.
    :param step: seconds between two points at least; the newest point is always that of the last look.
    :param times: of the points, seconds since 1970.
    :param values: by name of what may run out, its value at each point; None: not known then.
    """

    driver: str = ""
    step: float = 0.0
    times: tuple[float, ...] = ()
    values: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)

    def after(self, driver: str, at: float, found: Mapping[str, float]) -> Trace:
        """Return the trace after a look; one of another driver begins anew."""
        known = self if driver == self.driver else Trace(driver)
        if not found or (known.times and at <= known.times[-1]):
            return known
        kept = len(known.times)
        if kept > 1 and known.times[-1] - known.times[-2] < 0.9 * known.step:
            kept -= 1
        names = list(dict.fromkeys((*found, *known.values)))[:SERIES]
        none = (None,) * len(known.times)
        values = {name: (*known.values.get(name, none)[:kept], found.get(name)) for name in names}
        times = (*known.times[:kept], at)
        step = known.step
        if len(times) > POINTS:
            step = 2 * (times[-1] - times[0]) / (len(times) - 1)
            times, values = times[::-2][::-1], {name: each[::-2][::-1] for name, each in values.items()}
        return Trace(driver, step, times, {n: v for n, v in values.items() if any(each is not None for each in v)})

    def points(self, name: str) -> tuple[tuple[float, float], ...]:
        """Return the points at which a value was known: time and value."""
        values = self.values.get(name, ())
        return tuple((at, value) for at, value in zip(self.times, values, strict=False) if value is not None)


@dataclass(frozen=True)
class Level:
    """A vital that has a limit, as a look has found it.

    :param value: now; of what is free or left, that.
    :param limit: at which it has run out; 0 of what is free or left.
    :param says: what is so then, a clause such as ``the heap is full``.
    :param detail: in which unit the values are told; empty: not at all.
    """

    value: float
    limit: float
    says: str
    unit: str = ""


@dataclass(frozen=True)
class Trend:
    """One vital on its way to its limit.

    :param name: of the vital; with a query, and a topic, after slashes.
    :param seconds: until it has run out.
    :param slope: change a second; 0 of a date.
    """

    name: str
    level: Level
    seconds: float
    slope: float = 0.0

    @property
    def sentence(self) -> str:
        """The trend for people, such as ``The heap is full in 9 days.``"""
        says = f"{self.level.says[:1].upper()}{self.level.says[1:]} in {duration(self.seconds)}"
        if self.level.unit != "MB":
            return f"{says}."
        now, most, more = self.level.value / 1e6, self.level.limit / 1e6, abs(self.slope) * 3600 / 1e6
        is_now = f"{now:,.0f} of {most:,.0f} MB" if most else f"{now:,.0f} MB are free"
        return f"{says}: {is_now}, and {more:,.1f} MB {'more' if most else 'less'} an hour."


def levels(vitals: Vitals | None, report: LagReport | None) -> dict[str, Level]:
    """Return what may run out by these vitals, and by the lag, by name."""
    found: dict[str, Level] = {}

    def add(name: str, value: float | None, limit: float | None, says: str, unit: str = "MB") -> None:
        if value is not None and limit is not None:
            found[name] = Level(value, limit, says, unit)

    if vitals is not None:
        add("heap", vitals.heap_after_gc, vitals.heap_max, "the heap is full")
        add("log_disk", vitals.log_free, 0.0, "the disk of the driver's log is full")
        add("local_disk", vitals.local_free, 0.0, "the disk of the driver's local folder is full")
        # By its rows: its size is an estimate of Spark's, which goes up and down by a fifth.
        rows = sum(each.state_rows or 0 for each in vitals.queries.values() if each.state_bytes)
        size = sum(each.state_bytes or 0 for each in vitals.queries.values() if each.state_rows)
        if rows and size and vitals.executor_memory is not None:
            most = vitals.executor_memory * rows / size
            add("state", rows, most, "the state is as large as the executors' memory", "rows")
        for name, query in vitals.queries.items():
            # Of some ten summaries in its folder the newest is read when a query starts, and objects made of it.
            says = f"the log of the file sink of {name} is as large as the driver's heap"
            add(f"sink_log/{name}", query.sink_log_bytes, vitals.heap_max, says)
    for each in report.queries if report is not None else ():
        topics = ", ".join(sorted({p.topic for p in each.partitions if p.lag})[:3])
        says = f"what the query {each.query} reads next of {topics or 'its topics'} is deleted before it is read"
        add(f"offsets/{each.query}", each.retention_seconds, 0.0, says, "s")
    return found


def trends(trace: Trace, now: Mapping[str, Level], vitals: Vitals | None, at: float) -> tuple[Trend, ...]:
    """Return what runs out in less than `AHEAD_SECONDS`, the soonest first.

    :param now: see `levels`.
    :param at: seconds since 1970.
    """
    lines = {name: _until(trace.points(name), level.limit) for name, level in now.items()}
    found = [Trend(name, now[name], *each) for name, each in lines.items() if each is not None]
    dates = {"certificate": "a certificate of a Kafka source ends", "token": "a delegation token ends"}
    for name, says in dates.items():
        end = getattr(vitals, f"{name}_until", None)
        if end is not None:
            found.append(Trend(name, Level(end - at, 0.0, says), max(0.0, end - at)))
    return tuple(sorted((each for each in found if each.seconds < AHEAD_SECONDS), key=lambda each: each.seconds))


def _until(points: Sequence[tuple[float, float]], limit: float) -> tuple[float, float] | None:
    """Return after how many seconds the line through the newer half of the points is at its limit, and its slope.

    The slope is the median of those of pairs, as by Theil and Sen, so that some points may be anything; of pairs that
    are apart, because neighbours differ by chance. The older half tells nothing of a leak that has grown since.
    """
    if len(points) < LEAST_POINTS or points[-1][0] - points[0][0] < LEAST_SECONDS:
        return None
    newer = points[len(points) // 2 :]
    apart = (newer[-1][0] - newer[0][0]) / 3
    slopes = [(v - u) / (t - s) for (s, u), (t, v) in combinations(newer, 2) if t - s >= apart]
    slope, last = statistics.median(slopes), newer[-1][0]
    now = statistics.median(value + slope * (last - at) for at, value in newer)
    towards = 1 if limit > now else -1
    if slope * towards <= 0 or sum(each * towards > 0 for each in slopes) < AGREE * len(slopes):
        return None
    seconds = max(0.0, (limit - now) / slope)
    return (seconds, slope) if seconds <= REACH * (last - points[0][0]) else None


# For so long a trend must be, or not be: it may cross its limit again and again.
TREND_SECONDS = 600.0
# People who know of a trend are told again once less is left.
SOON_SECONDS = 86400.0
# With `upgrade.refresh: auto` a fresh driver takes over when less is left.
REFRESH_SECONDS = 6 * 3600.0
# A fresh driver cures these.
CURED = ("heap", "token")
_NUMBERED = re.compile(r"Refresh (\d{1,6}): ")


def symptom_of(found: Sequence[Trend], before: Mapping[str, float], *, refresh: bool, known: bool = True) -> Symptom:
    """Return what a look says of all trends together.

    :param before: of the look before, by name the seconds that were left.
    :param refresh: whether a fresh driver takes over by itself; see `REFRESH_SECONDS`.
    :param known: whether the look has found the vitals of the driver that holds.
    """
    if not found:
        return Symptom(Health.PASS if known else Health.UNKNOWN, for_at_least=TREND_SECONDS)
    says = " ".join(each.sentence for each in found)
    cured = " and ".join(each.name for each in found if each.name in CURED)
    if cured and refresh:
        left = duration(REFRESH_SECONDS)
        says += (
            f" A fresh driver of the same release takes over when the {cured} has {left} left, and this one is as old."
        )
    elif cured:
        says += f" A fresh driver has a fresh {cured}: redeploy the release that runs, or set `upgrade.refresh: auto`."
    new = any(e.name not in before or e.seconds < SOON_SECONDS <= before[e.name] for e in found)
    return Symptom(Health.FAIL, says, TREND_SECONDS, worse=new)


@dataclass(frozen=True)
class Refresh:
    """A fresh driver of the same release that is due.

    :param deployment: that holds now: there is one refresh for each.
    :param release: hash of its release.
    :param reason: for the history.
    """

    deployment: str
    release: str
    reason: str


def refresh_due(state: StreamState, found: Sequence[Trend], seen: float) -> Refresh | None:
    """Return the refresh that is due; None while nothing runs out soon, or anybody wants something else.

    :param seen: for how long this driver is looked at, in seconds: no other refresh follows sooner, as where each new
        driver warms up again, or gets the same old token.
    """
    held, wish = state.holding_deployment, state.wish
    soon = next((each for each in found if each.name in CURED and 0 < each.seconds < REFRESH_SECONDS), None)
    if soon is None or held is None or state.phase is not StreamPhase.RUNNING or seen < REFRESH_SECONDS:
        return None
    waits = state.candidate is not None and not state.candidate.only_looks
    if state.open_request is not None or waits or wish is None or wish.family != held.family:
        return None
    origin = state.wishes.get(held.family)
    before = _NUMBERED.match(origin.reason) if origin is not None else None
    return Refresh(held.id, held.release.hash, f"Refresh {int(before[1]) + 1 if before else 1}: {soon.sentence}")


@dataclass(frozen=True)
class TrendLook:
    """The result of a look at all trends.

    :param trace: for the next look.
    :param runs_out: by name of a trend how many seconds are left, as the sample keeps it.
    :param refresh: the fresh driver that is due; None: none is.
    """

    symptom: Symptom
    trace: Trace
    runs_out: Mapping[str, float]
    refresh: Refresh | None = None


def looked_at(
    snapshot: Snapshot, before: Trace, told: Mapping[str, float], report: LagReport | None, *, refresh: bool = False
) -> TrendLook:
    """Look at what runs out.

    :param before: the trace of the look before.
    :param told: by name of a trend, how many seconds were left at that look.
    :param report: of the lag; None: it is not known.
    :param refresh: whether a fresh driver takes over by itself (`upgrade.refresh`).
    """
    state, beat = snapshot.state, snapshot.holder_heartbeat
    vitals = beat.vitals if beat is not None else None
    now = levels(vitals, report)
    trace = before.after(state.holder or "", snapshot.at, {name: level.value for name, level in now.items()})
    found = trends(trace, now, vitals, snapshot.at)
    known = vitals is not None or state.holder is None
    runs_out = {each.name: round(each.seconds) for each in found} if found or known else told
    symptom = symptom_of(found, told, refresh=refresh, known=known)
    return TrendLook(
        symptom, trace, runs_out, refresh_due(state, found, trace.times[-1] - trace.times[0]) if refresh else None
    )
