"""How old the holder's last sign of life is: for people, who must not be told that a dead driver is running. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_stream_provider.lag.formatting import duration
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import judge_run

# Instead of `running`, for a stream whose holder has given no sign of life for two leases. Not a StreamPhase: the log
# does not know it.
SILENT = "silent"


@dataclass(frozen=True)
class SignOfLife:
    """The words for a stream: its phase, and how old the last heartbeat is.

    :param phase: of the stream, a StreamPhase or `silent`.
    :param silent_seconds: age of the last heartbeat of the holder, or of the last one that held; None: unknown.
    """

    phase: str
    silent_seconds: float | None = None

    @property
    def words(self) -> str:
        """The phase in words: `running`, or `silent for 40 min`."""
        return phase_words(self.phase, self.silent_seconds)


def sign_of_life(snapshot: Snapshot, last: LagSample | None) -> SignOfLife:
    """Return what to show of a stream.

    The age is the difference of two machines' clocks, held between what the looks of the watch have seen of the
    counter by one clock: so a driver whose clock is wrong is neither called silent nor alive for long.

    :param last: the newest sample of the stream's watch; None: there is none.
    """
    state, age = snapshot.state, snapshot.silent_seconds
    name = state.last_holder or ""
    if name in snapshot.heartbeats:
        counter = snapshot.counter(name)
        same, moved = silent_since(last, name, counter), moved_after(last, name, counter)
        at_least = 0.0 if same is None else snapshot.at - same
        at_most = age if moved is None else snapshot.at - moved
        if age is not None and at_most is not None:
            age = max(0.0, at_least, min(age, at_most))
        elif same is not None:
            age = max(0.0, at_least)
    phase = state.phase.value
    # A holder without a heartbeat has never given a sign of life.
    if state.phase is StreamPhase.RUNNING and (
        state.holder not in snapshot.heartbeats or judge_run(snapshot, age).health is Health.FAIL
    ):
        phase = SILENT
    return SignOfLife(phase, age)


def silent_since(last: LagSample | None, incarnation: str, counter: int) -> float | None:
    """Return the first look of those in a row up to the last one that saw this counter; None when the last did not.

    :param counter: -1 when there is no heartbeat that can be read, as `Snapshot.counter` says.
    """
    if last is None or last.counters.get(incarnation, -1) != counter:
        return None
    return last.since.get(incarnation, last.at if incarnation in last.counters else None)


def moved_after(last: LagSample | None, incarnation: str, counter: int) -> float | None:
    """Return the last look that saw a lower counter than this one; None when none did."""
    if last is None or incarnation not in last.counters:
        return None
    return last.at if last.counters[incarnation] < counter else last.moved.get(incarnation)


def phase_words(phase: str, silent_seconds: float | None) -> str:
    """Return a phase for people, with how long the driver has been silent if it has."""
    if phase != SILENT:
        return phase
    return "silent" if silent_seconds is None else f"silent for {duration(silent_seconds)}"
