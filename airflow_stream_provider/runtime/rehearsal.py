"""The rehearsal: runs the user's query plans on clones of the live checkpoints, with other sinks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyspark

import airflow_stream_provider.runtime as runtime
from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.lifecycle.changed_checkpoints import Change, locations
from airflow_stream_provider.lifecycle.errors import CheckpointAway, CheckpointError, RehearsalRefused
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.trial import Trial
from airflow_stream_provider.runtime.bad_records import FIND_SECONDS, BadRecords
from airflow_stream_provider.runtime.clone_runs import CloneRuns, TooSlow
from airflow_stream_provider.runtime.clone_trial import CloneTrial
from airflow_stream_provider.runtime.compatibility import (
    QueryFacts,
    changes_position,
    check_remembered,
    compare_queries,
    late_queries,
    on_another_file_system,
)
from airflow_stream_provider.runtime.describe import cleans_input, describe
from airflow_stream_provider.runtime.driver_process import DriverProcess
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.kafka_positions import ask_kafka, begins, goes_on
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.ownership import OtherDrivers
from airflow_stream_provider.runtime.refused import check_engine, check_jvm, check_sources
from airflow_stream_provider.runtime.spark_progress import again_of, counts_once, summary_of


def surroundings(queries: Sequence[ManagedQuery], described: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what there is now, by what it is, for a person; only whether it is still the same is asked.

    :param described: `describe` of each query.
    :raises CheckpointError: a checkpoint cannot be read.
    """
    found: dict[str, Any] = {}
    for query, said in zip(queries, described):
        found[f"plan or settings of the query {query.label}"] = {**said}
        if checkpoints.boundary(query.checkpoint).offsets is None:
            continue
        checkpoint = checkpoints.read(query.checkpoint)
        found[f"topics and partitions of the query {query.label}"] = [
            {topic: sorted(partitions) for topic, partitions in (source.topics or {}).items()}
            for source in checkpoint.sources
        ]
        found[f"conf in the checkpoint of the query {query.label}"] = dict(checkpoint.conf)
        found[f"stateful operators of the query {query.label}"] = checkpoint.operators
    return found


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return what is not as it was, as a clause; empty when all is."""
    names = [name for name in dict.fromkeys((*before, *now)) if before.get(name) != now.get(name)]
    return f"other {'; '.join(names)} than in its rehearsal" if names else ""


def executors(queries: Sequence[ManagedQuery]) -> dict[str, Any]:
    """Return the executors' addresses by Spark's own list in memory: a new one has loaded no class yet."""
    if not queries:
        return {}
    infos = queries[0].writer._df.sparkSession.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return {"executors": sorted(f"{each.host()}:{each.port()}" for each in infos)}


def power(query: ManagedQuery, rehearsed: float) -> str:
    """Return as a sentence how long the driver took to come up, and how many cores it has; empty when Spark is mute.

    :param rehearsed: seconds since its rehearsal began.
    """
    try:
        context: Any = query.writer._df.sparkSession.sparkContext
        uptime = context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getUptime() / 1000
        # The driver is one of them, whose cores count in local mode only.
        every = context._jsc.sc().statusStore().executorList(True)
        cores = sum(every.apply(number).totalCores() for number in range(every.size()))
    except Exception:
        log.exception("What this driver can compute with is not known")
        return ""
    return f"The driver took {uptime - rehearsed:.0f} s to come up, and its executors have {cores} cores."


# With less time than a clone of the state may take, none is begun any more.
CLONE_SECONDS = 10.0
# To plan a batch, Spark tells the sources that the one before it is done, and a file source then cleans the real input:
# also what the running release has not read. The batch that is planned on a clone is in the offsets log already: Spark
# plans no other one.
PLAN_ONLY = (
    "The query {} lets Spark clean its input (cleanSource): only its plan was rehearsed, because the batches of a "
    "rehearsal would remove files that the running release has not read."
)
# Notes on everything that a rehearsal could not see.
NO_BATCH = "The query {} has no batch yet: nothing of it was rehearsed."
ON_SCRATCH = (
    "The state of the query {} is larger than state_limit_bytes: it was rehearsed without. Whether its state can be "
    "loaded, and in which formats its checkpoint is written then, was not seen."
)
FORMATS_UNSEEN = "In which formats the checkpoint of the query {} is written by this release was not seen{}."
NOT_COUNTED = "How much the query {} reads once more or leaves out is not known: {}"
ON_PURPOSE = (
    "Nothing that runs was touched. If this is intended, name it in the form's `changed_checkpoints`: PATH for a "
    "checkpoint that is added or dropped; `PATH: source` or `PATH: sink` for a query that reads or writes elsewhere. "
    "What has another state needs a new checkpoint."
)
ONLY_PLANS = (
    "No driver holds the stream, and this release has run, or rehearsed, before: only its plans were rehearsed now."
)
NOT_CALLED = "The function that the query {} gives to {} was not called (upgrade.foreach_batch_safe)."

log = logging.getLogger(__name__)


class Rehearsal:
    """Rehearses the queries of one standby; its clones live beside each checkpoint and are removed afterwards."""

    def __init__(
        self, gate: Gate, policy: Policy, incarnation: str, process: DriverProcess, others: OtherDrivers
    ) -> None:
        self._gate = gate
        self._policy = policy
        self._incarnation = incarnation
        self._process = process
        self._others = others
        self._queries: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._one_way: list[str] = []
        self._seen: Mapping[str, Any] = {}
        self._pinned: dict[str, dict[str, str]] = {}
        # By checkpoint, the topics that it has offsets of.
        self._committed: dict[str, Collection[str]] = {}
        # Checkpoints of the queries whose input Spark cleans.
        self._cleaning: set[str] = set()
        self._say: Callable[[str], None] = lambda message: None
        self._runs = CloneRuns(gate, policy)
        self._batches = 0

    def run(
        self,
        former: Sequence[Mapping[str, Any]],
        *,
        plans_only: bool,
        check: Callable[[], None],
        say: Callable[[str], None],
    ) -> dict[str, Any]:
        """Rehearse every query and return a summary by query name.

        :param former: the queries of the release that runs or ran last, from its `standby` record.
        :param plans_only: no batch runs: no driver holds, this release has run or rehearsed before, and the stream
            would be down for each batch twice.
        :param check: raises if a checkpoint is not the one that the stream has run on.
        :param say: takes one line for the heartbeat.
        :raises CheckpointError: a checkpoint cannot be used, or belongs to another stream.
        :raises RehearsalRefused: this release cannot take over, by the comparison or by an error of Spark, or runs a
            stream already.
        """
        self._say = say
        # Spark 3 compares state schemas when it loads the state, not when it plans: there one batch at least must run.
        wanted = max(self._policy.rehearse_batches, 1 if pyspark.__version__.startswith("3.") else 0)
        self._batches = 0 if plans_only or self._policy.trial else wanted
        began = time.monotonic()
        self._runs.deadline = began + (FIND_SECONDS if self._policy.find else self._policy.rehearse_seconds)
        queries, skips = self._gate.all_known(), self._gate.skips()
        check_jvm(queries, self._runs.ids)
        # First: on the other file system there may be no rights, or nothing that answers.
        self._check_file_systems(former, [{"name": query.label, "checkpoint": query.checkpoint} for query in queries])
        for query in queries:
            check_engine(query.label, query.writer_spec)
            check_sources(query.writer)  # once more: the script may have changed the session's settings since
            self._process.check_checkpoint(query.checkpoint)
            checkpoints.check_whole(query.checkpoint)
            self._sweep(query)
            self._committed[query.checkpoint] = ask_kafka(query)
        check()
        started = time.monotonic()
        self._queries = [describe(query) for query in queries]
        self._seen = surroundings(queries, self._queries)
        self._pinned = {query.checkpoint: checkpoints.pinned_conf(query.checkpoint) for query in queries}
        self._notes, self._one_way = self._compared(former) + [ONLY_PLANS] * plans_only, []
        self._compare_positions(former, queries)
        self._cleaning = {query.checkpoint for query in queries if cleans_input(query)}
        self._notes += [PLAN_ONLY.format(query.label) for query in queries if query.checkpoint in self._cleaning]
        found = {}
        runtime._rehearsing = True
        try:
            for query in queries:
                found[query.label] = self._search(query) if self._policy.find else self._rehearse(query, began)
            for query in queries:  # last: what must be rehearsed is not to lack the time that this takes
                if found[query.label].get("batches"):
                    found[query.label].update(self._once_more(query))
        finally:
            runtime._rehearsing = False
        check_jvm(queries, self._runs.ids)
        self._seen = {**self._seen, **executors(queries)}  # those that came up meanwhile are warm, too
        self._say("")
        seconds = round(time.monotonic() - started, 2)
        return {"seconds": seconds, "queries": found, "notes": self._notes, "skips": skips, **self._way_back()}

    def _way_back(self) -> dict[str, Any]:
        """Return what of the summary is about the way back; nothing while there is one, as far as was seen.

        :raises RehearsalRefused: there would be none, and no person has accepted that.
        """
        if not self._one_way:
            return {}
        if not self._policy.no_way_back:
            raise RehearsalRefused(
                f"There would be no way back: {' '.join(self._one_way)} The release before may not be able to go on "
                "from there.",
                next_step="Nothing that runs was touched. Leave setting, Spark version, source or sink as it was; or "
                "say in the form's `no_way_back` that the stream need not be given back.",
            )
        return {"one_way": self._one_way}

    def to_come(self, former: Sequence[QueryFacts]) -> str:
        """Return which queries are waited for before the rehearsal."""
        names = self._gate.to_come(late_queries(former, self._policy.changed_checkpoints))
        return f"waiting for the script to start {', '.join(names)}, as the running release did late" if names else ""

    def compare(self, former: Sequence[Mapping[str, Any]]) -> None:
        """Compare the queries that were rehearsed with those of another holder than then.

        :raises RehearsalRefused: they differ in a way that Spark would accept although it changes results.
        """
        self._check_file_systems(former, self._queries)
        self._compared(former)

    def stale(self) -> str:
        """Return what has changed since the rehearsal, as a clause; empty for nothing.

        :raises CheckpointError: a checkpoint cannot be used any more, or is not whole.
        """
        queries = self._gate.all_known()
        try:
            for query in queries:
                self._process.check_checkpoint(query.checkpoint)
                checkpoints.check_whole(query.checkpoint)
            now = {**surroundings(queries, [describe(query) for query in queries]), **executors(queries)}
            return changed(self._seen, now)
        except CheckpointAway as error:
            # As before this look existed: the holder may hand over, and the queries wait for their storage.
            log.warning("Whether anything has changed since the rehearsal is not known: %s", error)
            return ""

    def _check_file_systems(self, former: Sequence[QueryFacts], queries: Sequence[QueryFacts]) -> None:
        moved = on_another_file_system(former, queries, self._policy.changed_checkpoints)
        if moved:
            raise RehearsalRefused(
                " ".join(moved),
                next_step="Put the former URL back, or the former fs.defaultFS in the cluster's core-site.xml; or move "
                "the checkpoint: stop the stream, copy it there, and deploy with both locations in the form's "
                "`changed_checkpoints` (docs/upgrade.md).",
            )

    def _compared(self, former: Sequence[Mapping[str, Any]]) -> list[str]:
        refusals, notes = compare_queries(
            former, self._queries, self._policy.changed_checkpoints, self._pinned, self._committed
        )
        if refusals:
            raise RehearsalRefused(
                " ".join(refusals),
                next_step=ON_PURPOSE,
            )
        self._gate.may_come_late(late_queries(former, self._policy.changed_checkpoints))
        return notes

    def _compare_positions(self, former: Sequence[QueryFacts], queries: Sequence[ManagedQuery]) -> None:
        """Hold checkpoints against what sinks remember, and count what a change on purpose leaves out or repeats.

        :raises RehearsalRefused: batches would be committed and never written, or the sink would fail for ever.
        """
        for query, said in zip(queries, self._queries):
            self._notes += check_remembered(query, self._accepts(query, Change.SINK_LOG))
            try:
                self._notes += self._counted(former, query, said)
            except CheckpointError as error:
                self._notes.append(NOT_COUNTED.format(query.label, error.message))

    def _counted(self, former: Sequence[QueryFacts], query: ManagedQuery, said: QueryFacts) -> list[str]:
        if checkpoints.boundary(query.checkpoint).offsets is None:
            here = {checkpoints.recorded_form(each.checkpoint) for each in self._gate.all_known()}
            before = [each for each in former if each["name"] == query.label]
            left = [each for each in before if checkpoints.recorded_form(str(each["checkpoint"])) not in here]
            return begins(query, left[0]) if left else []
        moved = changes_position(former, said)
        self._one_way += moved
        return goes_on(query) if moved or self._accepts(query, Change.SOURCE) else []

    def _accepts(self, query: ManagedQuery, change: Change) -> bool:
        named = locations(self._policy.changed_checkpoints, change)
        return checkpoints.normal_form(query.checkpoint) in map(checkpoints.normal_form, named)

    def _sweep(self, query: ManagedQuery) -> None:
        """Remove the clones that killed drivers have left beside the checkpoint: up to 1 GiB each."""
        for incarnation, folder in checkpoints.rehearsal_folders(query.checkpoint).items():
            if incarnation == self._incarnation or not self._others.may_rehearse(incarnation):
                log.info("Removing %s, which a driver that is gone has left", folder)
                checkpoints.remove_clones(folder)

    def _search(self, query: ManagedQuery) -> dict[str, Any]:
        if query.checkpoint in self._cleaning:
            return {"bad": [], "note": PLAN_ONLY.format(query.label)}
        folder = checkpoints.rehearsal_folder(query.checkpoint, self._incarnation)
        return BadRecords(self._runs, query, folder, self._policy.state_limit_bytes, self._say).find()

    def _rehearse(self, query: ManagedQuery, began: float) -> dict[str, Any]:
        folder = checkpoints.rehearsal_folder(query.checkpoint, self._incarnation)
        summary: dict[str, Any] = {}
        try:
            if checkpoints.boundary(query.checkpoint).offsets is None:
                self._notes.append(NO_BATCH.format(query.label))
                return summary  # its first batch runs after the hand-over
            self._say(f"rehearsing the plan of {query.label}")
            summary["plan_seconds"] = self._runs.plan(query, str(folder / "plan"))
            if self._policy.trial:
                self._say(f"measuring {query.label}, with both settings in turns")
                trial, limit = Trial.from_json(self._policy.trial), self._policy.state_limit_bytes
                summary["trial"] = CloneTrial(self._runs, query, trial, folder, limit).run()
            elif self._batches and query.checkpoint not in self._cleaning:
                self._say(f"warming up {query.label}")
                summary.update(self._warm(query, str(folder / "warm")))
            else:
                self._notes.append(FORMATS_UNSEEN.format(query.label, ": none of its batches was run"))
            if self._batches:
                self._runs.warm_sink(query)
            return summary
        except TooSlow as error:
            # Nothing has failed, and either the release or the machine is slow: a person is asked.
            log.warning("%s", error)
            said = f"{error.message} {power(query, time.monotonic() - began)}".rstrip()
            return {**summary, **(self._summary(query, error.batches) if error.batches else {}), "doubt": said}
        finally:
            checkpoints.remove_clones(folder)

    def _warm(self, query: ManagedQuery, clone: str) -> dict[str, Any]:
        """Run real batches into a sink that drops them, to warm up classes, generated code, consumers and state."""
        source, before = self._prepare(query, clone)
        if query.writer_spec.sink in ("foreachBatch", "foreach") and self._runs.function(query) is None:
            self._notes.append(NOT_CALLED.format(query.label, query.writer_spec.sink))
        batches = self._runs.batches(query, clone, self._batches)
        if before is not None:
            self._compare_formats(query, before, checkpoints.formats(clone))
        return {"on": source, **self._summary(query, batches)}

    def _summary(self, query: ManagedQuery, batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        exact = self._runs.function(query) is None or all(map(counts_once, batches))
        return {**summary_of(batches), "rows_exact": exact}

    def _once_more(self, query: ManagedQuery) -> dict[str, Any]:
        """Run the batch again that the holder has committed last, now that all is warm: the same rows and state.

        By it this release is compared with the holder. It is left out where the checkpoint cannot be cloned with its
        state, and where the rehearsal's time does not last for it.
        """
        if time.monotonic() + CLONE_SECONDS > self._runs.deadline:
            return {}
        self._say(f"running the last batch of {query.label} once more")
        folder = checkpoints.rehearsal_folder(query.checkpoint, self._incarnation)
        clone, limit = str(folder / "again"), self._policy.state_limit_bytes
        try:
            checkpoints.clone_state(query.checkpoint, clone, self._runs.new_id(), limit, drop_last_commit=True)
            found = self._runs.batches(query, clone, 1)
        except (CheckpointError, TooSlow) as error:
            log.info("The last batch of %s is not run once more: %s", query.label, error)
            return {}
        finally:
            checkpoints.remove_clones(folder)
        return {"again": again_of(found[0])} if found else {}

    def _compare_formats(self, query: ManagedQuery, before: checkpoints.Formats, after: checkpoints.Formats) -> None:
        found = checkpoints.one_way(before, after)
        if found:
            self._one_way.append(f"The query {query.label} writes {', '.join(found)}.")
        if before.batch == after.batch:
            # The first batch of a clone is the one that the holder has committed last.
            why = "no new records came in" if self._batches > 1 else "only its last batch was run, once more"
            self._notes.append(FORMATS_UNSEEN.format(query.label, f" in offsets/: {why}"))

    def _prepare(self, query: ManagedQuery, clone: str) -> tuple[str, checkpoints.Formats | None]:
        """Make the checkpoint for the warm-up; return what it is made of, and its formats if it is a clone."""
        limit = self._policy.state_limit_bytes
        try:
            # Without the last commit, so that there is a batch to run even when no new data arrives.
            checkpoints.clone_state(query.checkpoint, clone, self._runs.new_id(), limit, drop_last_commit=True)
            return "a clone of the state", checkpoints.formats(clone)
        except checkpoints.StateTooLarge as error:
            self._say(str(error))
        checkpoints.scratch(query.checkpoint, clone, self._runs.new_id())
        self._notes.append(ON_SCRATCH.format(query.label))
        return "a scratch checkpoint", None
