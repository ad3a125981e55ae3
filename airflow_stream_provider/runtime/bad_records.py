"""Find the records at which the planned batch of a query fails: runs of parts of it on clones of its checkpoint.

A part that fails is halved until one record is left: one of 100,000 takes some 20 runs. Nothing that runs is touched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint.clone import Ranges
from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.skip import KafkaRecord
from airflow_stream_provider.runtime.clone_runs import CloneRuns, TooSlow
from airflow_stream_provider.runtime.gate import start_ungated
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.query_failures import LOSS
from airflow_stream_provider.runtime.spark_error import failure_of, message_of
from airflow_stream_provider.runtime.writer_spec import rehearsal_writer

# With more, the records are not what is wrong.
MOST_FOUND = 20
# The longest search of a driver, in seconds.
FIND_SECONDS = 900.0

LOOKED_ONLY = "Its driver has only looked for the records at which a batch fails: it never comes to hold."
NO_BATCH = "No batch of it is planned that is not committed."
NO_KAFKA = "Its planned batch reads nothing from Kafka."
GOES_WELL = "The whole batch was run on a clone, and did not fail: what fails is not a record, or it is gone."
WITHOUT_SINK = (
    "The whole batch was run on a clone, into no sink, and did not fail. A record that fails only in the sink is found "
    "where that is a function of foreachBatch that may be called in a rehearsal (upgrade.foreach_batch_safe)."
)
TOGETHER = "It fails at more than one record at once: none of these records fails alone."
MORE = f"The search ended after {MOST_FOUND} records: so many are hardly the records' fault."

log = logging.getLogger(__name__)


def failing(count: int, fails: Callable[[int, int], bool]) -> Iterator[tuple[int, int]]:
    """Yield the smallest parts of so many records that fail, each as its first record and the one after its last.

    All other records have been run in parts that did not fail.

    :param fails: whether the records from one number up to another fail.
    """
    begin = 0
    while begin < count and fails(begin, count):
        low, high = begin, count
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fails(low, middle) else (middle, high)
        if (low, high) == (begin, count) or fails(low, high):
            yield low, high
            begin = high
        else:
            yield begin, count
            return


class BadRecords:
    """The search in one query.

    :param runs: with the deadline of the search.
    :param folder: for its clones.
    :param limit: largest size of a clone, in bytes.
    :param say: takes one line for the heartbeat.
    """

    def __init__(
        self, runs: CloneRuns, query: ManagedQuery, folder: Place, limit: int, say: Callable[[str], None]
    ) -> None:
        self._runs = runs
        self._query = query
        self._folder = folder
        self._limit = limit
        self._say = say
        self._batch = 0
        self._ranges: Ranges = {}
        self._count = 0
        self._error = ""

    def find(self) -> dict[str, Any]:
        """Return what was found: `batch`, `records` that it has, `runs`, `bad` (records by name), `error`, `note`."""
        found: dict[str, Any] = {"bad": [], "note": ""}
        try:
            self._search(found)
        except (CheckpointError, TooSlow) as error:
            found["note"] = error.message
        return {**found, "runs": self._count, "doubt": LOOKED_ONLY}

    def _search(self, found: dict[str, Any]) -> None:
        planned = checkpoints.planned_ranges(self._query.checkpoint)
        if planned is None:
            found["note"] = NO_BATCH
            return
        self._batch, self._ranges = planned
        count = sum(max(0, end - begin) for begin, end in self._ranges.values())
        found.update(batch=self._batch, records=count, note="" if count else NO_KAFKA)
        for low, high in failing(count, self._fails):
            if high - low > 1:
                found["note"] = TOGETHER
                break
            found["bad"].append(self._record(low).name)
            found["error"] = self._error
            self._say(f"found {', '.join(found['bad'])} in batch {self._batch} of {self._query.label}")
            if len(found["bad"]) == MOST_FOUND:
                found["note"] = MORE
                break
        if count and not (found["bad"] or found["note"]):
            without = self._query.writer_spec.sink != "noop" and self._runs.function(self._query) is None
            found["note"] = WITHOUT_SINK if without else GOES_WELL

    def _record(self, number: int) -> KafkaRecord:
        for (_, topic, partition), (begin, end) in self._ranges.items():
            if number < end - begin:
                return KafkaRecord(topic, partition, begin + number)
            number -= max(0, end - begin)
        raise AssertionError("there are not so many records")

    def _part(self, low: int, high: int) -> Ranges:
        """The ranges of the records from one number up to another."""
        found, at = {}, 0
        for place, (begin, end) in self._ranges.items():
            size = max(0, end - begin)
            first, last = (min(max(number - at, 0), size) for number in (low, high))
            found[place] = (begin + first, begin + last)
            at += size
        return found

    def _fails(self, low: int, high: int) -> bool:
        self._count += 1
        left = self._runs.deadline - time.monotonic()
        if left <= 0:
            raise TooSlow(f"The search in {self._query.label} was not over within {FIND_SECONDS:.0f} s.")
        self._say(f"run {self._count} of batch {self._batch} of {self._query.label}: {high - low} records")
        clone = str(self._folder / f"part-{self._count}")
        try:
            return self._run(clone, self._part(low, high), left)
        finally:
            checkpoints.remove_clones(self._folder)

    def _run(self, clone: str, part: Ranges, left: float) -> bool:
        query = self._query
        checkpoints.clone_range(query.checkpoint, clone, self._runs.new_id(), self._limit, self._batch, part)
        # One batch, and no other: the one that is planned.
        writer = rehearsal_writer(query.writer, clone).trigger(once=True)
        function = self._runs.function(query)
        run = start_ungated(writer.format("noop") if function is None else writer.foreachBatch(function))
        try:
            if run.awaitTermination(max(1, int(left))):
                return False
        except Exception as error:
            if any(sign in str(error) for sign in LOSS):
                raise TooSlow(f"Kafka does not show the records of the batch: {message_of(error, 300)}") from error
            log.info("Part %s of batch %s fails: %s", clone, self._batch, message_of(error, 300))
            self._error = failure_of(error).error
            return True
        finally:
            run.stop()
        raise TooSlow(f"A run of {query.label} was not over within {FIND_SECONDS:.0f} s.")
