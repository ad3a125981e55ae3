"""How old the holder's last sign of life is: for people, who must not be told that a dead driver is running. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
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
    """What people are shown of a stream: its phase, and how old the last heartbeat is.

    :param phase: of the stream, a StreamPhase or `silent`.
    :param silent_seconds: age of the last heartbeat of the holder, or of the last one that held; None: unknown.
    """

    phase: str
    silent_seconds: float | None = None

    @property
    def words(self) -> str:
        """The phase in words: `running`, or `silent for 40 min`."""
        return phase_words(self.phase, self.silent_seconds)


def sign_of_life(snapshot: Snapshot, samples: Sequence[LagSample]) -> SignOfLife:
    """Return what to show of a stream.

    The age is the difference of two machines' clocks, held between what the looks of the watch have seen of the
    counter by one clock: so a driver whose clock is wrong is neither called silent nor alive for long.

    :param samples: of the stream's watch, oldest first.
    """
    state, age = snapshot.state, snapshot.silent_seconds
    name = state.last_holder or ""
    if name in snapshot.heartbeats:
        counter = snapshot.counter(name)
        same = silent_since(samples, name, counter)
        moved = [sample.at for sample in samples if sample.counters.get(name, counter) < counter]
        at_least = 0.0 if same is None else snapshot.at - same
        at_most = snapshot.at - moved[-1] if moved else age
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


def silent_since(samples: Sequence[LagSample], incarnation: str, counter: int) -> float | None:
    """Return the time since when every sample has this counter of a heartbeat; None when the last one has not.

    :param counter: -1 when there is no heartbeat that can be read, as `Snapshot.counter` says.
    """
    same = itertools.takewhile(lambda sample: sample.counters.get(incarnation, -1) == counter, reversed(samples))
    return min((sample.at for sample in same), default=None)


def phase_words(phase: str, silent_seconds: float | None) -> str:
    """Return a phase for people, with how long the driver has been silent if it has."""
    if phase != SILENT:
        return phase
    return "silent" if silent_seconds is None else f"silent for {duration(silent_seconds)}"
