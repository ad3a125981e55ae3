"""What the heartbeats of drivers have said, and when: in which times each of them ran the queries."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_stream_provider.lifecycle.heartbeat import DriverPhase, Heartbeat

# A driver that runs beats every second. One that was frozen while it wrote a heartbeat writes it when it wakes.
GAP_SECONDS = 3.0

_RUNS_QUERIES = (DriverPhase.RUNNING.value, DriverPhase.RELEASING.value)


@dataclass
class Span:
    """A time in which a driver said again and again that it runs the queries, in seconds since 1970."""

    since: float
    until: float


@dataclass
class Sighting:
    """What the heartbeats of one driver have said.

    :param last: the last one that could be read.
    :param spans: when it ran the queries.
    """

    last: Heartbeat = field(default_factory=Heartbeat)
    spans: list[Span] = field(default_factory=list)
    _goes_on: bool = False

    def saw(self, beat: Heartbeat, at: float) -> None:
        """Note a heartbeat, which may be the same as before.

        :param at: when it was written.
        """
        if beat.counter == self.last.counter:
            return
        runs = beat.phase in _RUNS_QUERIES
        if runs and self._goes_on and at - self.spans[-1].until < GAP_SECONDS:
            self.spans[-1].until = at
        elif runs:
            self.spans.append(Span(at, at))
        self.last, self._goes_on = beat, runs
