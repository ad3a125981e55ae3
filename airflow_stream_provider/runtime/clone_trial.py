"""The trial of settings: the same batches of a query on two clones, with the present ones and with others, in turns.

Both sides run in one driver, so a busy machine slows both. Each begins some batches back, where the stream's records
are all there: its batches are full, though the stream keeps up.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.location import Location
from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.lifecycle.trial import Trial
from airflow_stream_provider.runtime.clone_runs import CloneRuns, Function, TooSlow
from airflow_stream_provider.runtime.describe import kafka_relations
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.spark_progress import rows_of

# Batches of one side in a row; the first of them loads state and opens consumers, and is not measured.
TURN = 5
# So many batches back a trial begins: Spark keeps 100, and removes the oldest ones meanwhile.
BACK = 60
# So many of the last batches say how large a batch usually is.
SIZED_BY = 30
# A batch with less than this share of its cap came last, when no more records were there.
FULL = 0.9
CAP = "maxoffsetspertrigger"
OLD, NEW = "old", "new"

log = logging.getLogger(__name__)


class CloneTrial:
    """The trial of one query.

    :param folder: for its clones.
    :param limit: largest size of a clone, in bytes.
    """

    def __init__(self, runs: CloneRuns, query: ManagedQuery, trial: Trial, folder: Place, limit: int) -> None:
        self._runs = runs
        self._query = query
        self._trial = trial
        self._clones = {side: str(folder / side) for side in (OLD, NEW)}
        self._limit = limit
        self._caps: dict[str, int] = {}

    def run(self) -> dict[str, Any]:
        """Run both sides in turns, and return seconds and records of each batch.

        :return: `old` and `new`, lists of pairs; `on`, what the clones are made of; `note` on what is missing.
        :raises RehearsalRefused: the settings cannot be changed in a driver that runs, or a batch fails with them.
        :raises CheckpointError: the checkpoint cannot be read, or cloned.
        """
        found: dict[str, Any] = {OLD: [], NEW: [], "on": "", "note": ""}
        if not kafka_relations(self._query):
            return {**found, "note": "It reads no Kafka topic, so its batches cannot be run again in the same size."}
        options = self._options()
        found["on"] = self._clone()
        conf = {OLD: {}, NEW: self._trial.conf}
        functions = {OLD: None, NEW: self._persisting() if self._trial.persist else None}

        def turn(side: str, wanted: int) -> list[tuple[float, int]]:
            with self._settings(conf[side], options[side]):
                ran = self._runs.batches(self._query, self._clones[side], wanted + 1, functions[side])[1:]
            return [(each["durationMs"]["triggerExecution"] / 1000, rows_of(each)) for each in ran]

        try:
            for side in (OLD, NEW):
                turn(side, 1)  # to load classes and to compile
            for number in range(-(-self._trial.batches // TURN)):
                for side in (OLD, NEW) if number % 2 == 0 else (NEW, OLD):
                    ran = turn(side, TURN)
                    found[side] += [each for each in ran if each[1] >= FULL * self._caps[side]]
                    if len(ran) < TURN:
                        return {**found, "note": "There were no more records for full batches."}
        except TooSlow as error:
            found["note"] = error.message
        return found

    def _options(self) -> dict[str, Mapping[str, str]]:
        """Return the options of each side: where the script caps no batch, both have the size of its last ones."""
        caps = [relation.extraOptions().get(CAP) for relation in kafka_relations(self._query)]
        given = min((int(cap) for cap in caps if cap), default=0)
        cap = given or usual_records(self._query.checkpoint)
        old = {} if given else {CAP: str(cap)}
        new = {**old, **self._trial.options}
        # Each source has a cap of its own.
        sources = len(caps)
        self._caps = {OLD: cap * sources, NEW: int(new.get(CAP) or cap) * sources}
        return {OLD: old, NEW: new}

    def _clone(self) -> str:
        """Make the clones; return what they are made of."""
        location = self._query.checkpoint
        commits = [batch for batch, _ in checkpoints.read(location).commits]
        at = commits[max(min(1, len(commits) - 1), len(commits) - BACK)] if commits else None
        pinned = sorted(set(checkpoints.pinned_conf(location)) & set(self._trial.conf))
        for clone in self._clones.values():
            if pinned:  # a clone would keep what is in the checkpoint
                checkpoints.scratch(location, clone, self._runs.new_id(), at)
            else:
                checkpoints.clone_state(location, clone, self._runs.new_id(), self._limit, True, at)
        return f"new checkpoints, as one keeps {', '.join(pinned)}" if pinned else "clones of the state"

    def _persisting(self) -> Function:
        function = self._runs.function(self._query)
        if function is None:
            raise RehearsalRefused(
                f"To persist the batches of {self._query.label}, its function of foreachBatch has to be called.",
                next_step="Allow that with `upgrade.foreach_batch_safe`, if the function may get a batch twice.",
            )

        def persisting(batch: DataFrame, batch_id: int) -> None:
            batch.persist()
            try:
                function(batch, batch_id)
            finally:
                batch.unpersist()

        return persisting

    @contextmanager
    def _settings(self, conf: Mapping[str, str], options: Mapping[str, str]) -> Iterator[None]:
        """Let queries that start meanwhile have these settings: Spark takes both when it starts one."""
        session = self._query.writer._df.sparkSession.conf
        before = {name: session.get(name, None) for name in conf}
        maps = [_options_of(relation) for relation in kafka_relations(self._query)]
        given = [{name: each.get(name) for name in options} for each in maps]
        try:
            for name, value in conf.items():
                session.set(name, value)
            for each in maps:
                for name, value in options.items():
                    each.put(name, value)
            yield
        finally:
            for name, had in before.items():
                session.unset(name) if had is None else session.set(name, had)
            for each, options_before in zip(maps, given):
                for name, had in options_before.items():
                    each.remove(name) if had is None else each.put(name, had)


def _options_of(relation: Any) -> Any:
    """Return the options of a source as the map that Spark reads them from: there is no way to change them but this.

    The plan is this driver's own, and it never comes to hold.
    """
    options = relation.extraOptions()
    held = options.getClass().getDeclaredField("delegate")
    held.setAccessible(True)
    return held.get(options)


def usual_records(location: Location) -> int:
    """Return how many records a batch has, the median of the last ones that have any; 1 where none has.

    :raises CheckpointError: the checkpoint cannot be read.
    """
    offsets = [found for _, found in checkpoints.recent(checkpoints.read(location), SIZED_BY)]
    sizes = [
        sum(
            end - before[topic][partition]
            for topic, partitions in after.items()
            for partition, end in partitions.items()
            if partition in before.get(topic, {})
        )
        for before, after in zip(offsets, offsets[1:])
    ]
    return max(1, int(statistics.median([size for size in sizes if size > 0] or [1])))
