"""The outcomes of trials, and how their changes fare since: from the records of the stream. Pure."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.trial import Trial

# Batches of each side without which a ratio says nothing.
ENOUGH = 5
# A gain that is worth an upgrade.
WORTH = 1.1
# The spread comes from so many resamples. This share of them lies below it, and as many above.
RESAMPLES, TAIL = 1000, 0.05


class Verdict(StrEnum):
    """The outcome of a trial of one query."""

    BETTER = "better"
    NOT_BETTER = "not better"
    UNMEASURED = "not enough measured"


@dataclass(frozen=True)
class Ratio:
    """How many times faster a record was with the new settings, by the medians of seconds per record.

    :param value: the ratio of the medians; above 1 the new settings are faster.
    :param low: where it lies with 95 % at least, by resampling the batches.
    :param high: where it lies with 95 % at most.
    :param old: batches that were measured with the present settings.
    :param new: batches that were measured with the new ones.
    """

    value: float
    low: float
    high: float
    old: int
    new: int

    def __str__(self) -> str:
        return f"{self.value:.2f} × ({self.low:.2f} to {self.high:.2f})"


def ratio_of(old: Sequence[Sequence[float]], new: Sequence[Sequence[float]]) -> Ratio | None:
    """Return the ratio of two sides of a trial; None: too few batches.

    :param old: pairs of seconds and records.
    :param new: as `old`.
    """
    before, after = ([seconds / records for seconds, records in side if records > 0] for side in (old, new))
    if min(len(before), len(after)) < ENOUGH or not statistics.median(after):
        return None
    dice = random.Random(0)  # the same spread each time that the records are read
    drawn = sorted(
        statistics.median(dice.choices(before, k=len(before))) / statistics.median(dice.choices(after, k=len(after)))
        for _ in range(RESAMPLES)
    )
    low, high = drawn[int(TAIL * RESAMPLES)], drawn[int((1 - TAIL) * RESAMPLES) - 1]
    return Ratio(statistics.median(before) / statistics.median(after), low, high, len(before), len(after))


def verdict_of(ratio: Ratio | None) -> Verdict:
    """Return what a ratio says: whether it is worth an upgrade, and by its spread without doubt."""
    if ratio is None:
        return Verdict.UNMEASURED
    return Verdict.BETTER if ratio.value >= WORTH and ratio.low > 1 else Verdict.NOT_BETTER


@dataclass(frozen=True)
class Tried:
    """One query of a trial, and of its driver's record.

    :param seq: number of that record.
    :param note: what the driver says of what is missing.
    :param on: what its clones were made of.
    :param live: how many times faster a record is in the holder than before, which runs with the change since then;
        None: it does not, or too little is known.
    """

    trial: Trial
    query: str
    seq: int
    ratio: Ratio | None
    note: str = ""
    on: str = ""
    live: float | None = None

    @property
    def verdict(self) -> Verdict:
        """The outcome, by the ratio."""
        return verdict_of(self.ratio)

    @property
    def sentence(self) -> str:
        """The trial for people: what was predicted, tried, and is live."""
        predicted = f"predicted {self.trial.predicted:.2f} ×, " if self.trial.predicted else ""
        tried = f"tried {self.ratio}" if self.ratio is not None else "not enough measured"
        live = f", live {self.live:.2f} ×" if self.live is not None else ""
        note = f" {self.note}" if self.note else ""
        return f"{self.query} with {self.trial.changes}: {predicted}{tried}{live}: {self.state}.{note}"

    @property
    def state(self) -> str:
        """Whether it is open, closed, or taken back."""
        if self.live is not None:
            return "closed"
        return "better, and not live yet" if self.verdict is Verdict.BETTER else self.verdict.value

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {**asdict(self), "trial": self.trial.to_json(), "verdict": self.verdict.value, "state": self.state}


@dataclass(frozen=True)
class Live:
    """The holder now.

    :param since: number of the record by which it came to hold.
    :param conf: its settings, as set.
    :param options: of the Kafka sources of each query, by name in lower case.
    :param seconds: that it takes for each record, by query.
    :param reads: how often it reads each record, by query.
    """

    since: int = 0
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    reads: Mapping[str, float] = field(default_factory=dict)

    def has(self, trial: Trial, query: str) -> bool:
        """Whether a query runs with what a trial has changed."""
        conf = all(self.conf.get(name) == value for name, value in trial.conf.items())
        options = all(self.options.get(query, {}).get(name) == value for name, value in trial.options.items())
        return conf and options and (not trial.persist or 0 < self.reads.get(query, 0.0) < 1.5)


def tried(records: Iterable[Record], live: Live) -> list[Tried]:
    """Return every trial of a stream by query, oldest first.

    :param records: of its control log.
    """
    trials: dict[str, Trial] = {}
    found = []
    for record in records:
        if record.kind == Kind.DECLARED and (said := (record.get("policy") or {}).get("trial")):
            trials[str(record["deployment"])] = Trial.from_json(said)
        trial = trials.get(str(record.get("deployment"))) if record.kind == Kind.STANDBY else None
        if trial is not None:
            queries = (record.get("rehearsal") or {}).get("queries") or {}
            found += [
                _tried(trial, name, record.seq, each["trial"], live)
                for name, each in queries.items()
                if "trial" in each
            ]
    return found


def _tried(trial: Trial, query: str, seq: int, said: Mapping[str, Any], live: Live) -> Tried:
    ratio = ratio_of(said.get("old") or (), said.get("new") or ())
    before, now = trial.before.get(query), live.seconds.get(query)
    since = live.since > seq and live.has(trial, query)
    faster = before / now if since and before and now else None
    return Tried(trial, query, seq, ratio, str(said.get("note") or ""), str(said.get("on") or ""), faster)


def in_vain(found: Sequence[Tried]) -> list[Trial]:
    """Return the trials whose last try found no gain in any query."""
    gains = [each.trial for each in found if each.verdict is Verdict.BETTER]
    none = [each.trial for each in found if each.verdict is Verdict.NOT_BETTER]
    return [each for each in none if not any(each.same_change(other) for other in gains)]


def seconds_per_record(beat: Heartbeat | None) -> dict[str, float]:
    """Return the seconds that a driver takes for each record by query, over its last batches."""
    found = {}
    for query in beat.queries if beat is not None else ():
        rows = sum(batch.rows for batch in query.batches)
        if rows > 0:
            found[query.name] = sum(batch.seconds for batch in query.batches) / rows
    return found
