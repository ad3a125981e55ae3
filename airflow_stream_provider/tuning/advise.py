"""The rules: each says what it has measured, what to change, and what that should do. Pure.

Spark's progress says where the time of a batch goes, but not whether a core is free or what a change costs elsewhere.
So a rule that fires is a reason for a trial, and no more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_stream_provider.lifecycle.trial import Trial
from airflow_stream_provider.tuning.measured import ENOUGH, WARMING, Measured, measured
from airflow_stream_provider.tuning.proposal import Change, Proposal, Where

SHUFFLE = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
ARROW = "spark.sql.execution.pythonUDF.arrow.enabled"
# A batch may take so long, in seconds, unless the stream's limits say how far it may be behind.
WANTED_SECONDS = 60.0
# By how much a batch is enlarged at most, in one step.
LARGEST_STEP = 20
# Shares of the best rate that come in: above the first, a stream has no room to catch up, as in Flink's autoscaler.
BUSY, RIGHT, IDLE, IDLE_PEAK = 0.7, 0.6, 0.2, 0.5


def advise(
    environment: Mapping[str, Any],
    vitals: Mapping[str, Any],
    described: Sequence[Mapping[str, Any]] = (),
    *,
    wanted_seconds: float = WANTED_SECONDS,
    loads: Mapping[str, Sequence[float]] | None = None,
    in_vain: Sequence[Trial] = (),
) -> tuple[Proposal, ...]:
    """Return what the rules propose; nothing for a query of which not enough is measured.

    :param environment: of the driver that holds, as its `standby` record has it.
    :param vitals: as its heartbeat has them.
    :param described: `queries` of that record.
    :param wanted_seconds: how long a batch may take.
    :param loads: by query, what came in over a week, as shares of the best rate; empty: not known.
    :param in_vain: the trials of this stream that found no gain: what they changed is not proposed again.
    """
    known = [each for each in measured(environment, vitals, described) if each.enough]
    found = [
        *(small_batches(each, wanted_seconds) for each in known),
        *(oversized(each, (loads or {}).get(each.name, ())) for each in known),
        *(rule(each) for each in known for rule in RULES),
    ]
    return tuple(each for each in found if each is not None and not _in_vain(each, in_vain))


def unmeasured(environment: Mapping[str, Any], vitals: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each query of which not enough is measured."""
    return [
        f"{each.name}: not enough measured. {each.number('batches'):.0f} batches with data are known, and "
        f"{ENOUGH} after the first {WARMING} are needed."
        for each in measured(environment, vitals)
        if not each.enough
    ]


def _in_vain(proposal: Proposal, trials: Sequence[Trial]) -> bool:
    mine = proposal.change.trial
    return any(each.rule == proposal.rule or (mine is not None and mine.same_change(each)) for each in trials)


def small_batches(m: Measured, wanted_seconds: float) -> Proposal | None:
    """R1: batches are capped and full, the stream is behind, and much of a batch is not spent on records."""
    cap, behind = m.option("maxoffsetspertrigger"), m.number("behind")
    if not cap or m.number("full") < 0.8 or behind <= 0:
        return None
    now, records, line = m.seconds("triggerExecution"), m.number("records"), m.line
    fixed = max(1 - m.share("addBatch"), line[0] / (line[0] + line[1] * records) if line else 0.0)
    if fixed < 0.3:
        return None

    def batch_seconds(factor: int) -> float:
        return line[0] + line[1] * records * factor if line else now * factor

    factor = min(LARGEST_STEP, math.ceil(4 * fixed / (1 - fixed)) if fixed < 1 else LARGEST_STEP)
    while factor >= 2 and batch_seconds(factor) > wanted_seconds:
        factor -= 1
    if factor < 2:
        return None
    predicted = factor * batch_seconds(1) / batch_seconds(factor) if line else 1 / (1 - fixed + fixed / factor)
    return Proposal(
        "small-batches",
        m.name,
        f"Every batch is full ({cap:,} records) and the stream is {behind:,.0f} records behind; {fixed:.0%} of a batch "
        f"of {now:.2f} s does not grow with its records.",
        Change(
            Where.OPTION,
            f"raise maxOffsetsPerTrigger from {cap} to {cap * factor}",
            options={"maxoffsetspertrigger": str(cap * factor)},
        ),
        predicted,
        "" if line else "at least",
        f"a batch takes up to {batch_seconds(factor):.1f} s then",
    )


def read_again(m: Measured) -> Proposal | None:
    """R2: Spark reads the source once for each action of foreachBatch."""
    ratio = m.number("rows") / m.number("records")
    times = round(ratio)
    if times < 2 or abs(ratio - times) > 0.1 * times:
        return None
    return Proposal(
        "read-again",
        m.name,
        f"Spark reads every batch {times} times: {m.number('rows'):,.0f} rows of {m.number('records'):,.0f} records.",
        Change(
            Where.SCRIPT, "persist() the batch before its first action, unpersist() it after the last", persist=True
        ),
        float(times),
        "at most",
        "room for one batch in the executors",
    )


def state_partitions(m: Measured) -> Proposal | None:
    """R3: state partitions that hold and get next to nothing; each costs a task and a commit in every batch."""
    if not m.cores or m.partitions <= 4 * m.cores or m.number("records") / m.partitions >= 1000:
        return None
    wanted, batch = 3 * m.cores, m.seconds("triggerExecution")
    saved = m.seconds("addBatch") * (1 - wanted / m.partitions)
    return Proposal(
        "state-partitions",
        m.name,
        f"{m.partitions} state partitions on {m.cores} cores for {m.number('records'):,.0f} records a batch: "
        f"{m.partitions / m.cores:.0f} rounds of tasks.",
        Change(Where.CHECKPOINT, f"{SHUFFLE}: {wanted}", conf={SHUFFLE: str(wanted)}),
        batch / (batch - saved),
        needs="a new checkpoint: Spark keeps the number that is in the present one",
    )


def idle_cores(m: Measured) -> Proposal | None:
    """R4: fewer tasks read Kafka than there are cores, and they are what a batch waits for."""
    tasks, cores = m.kafka_tasks, m.cores or 0
    waits = m.number("task_p50") >= 0.8 * m.number("stage_seconds") > 0
    if not 0 < tasks < cores or m.seconds("addBatch") < 0.5 or not waits:
        return None
    return _min_partitions(
        m,
        "idle-cores",
        f"{tasks} tasks read Kafka on {cores} cores, and a batch works for {m.seconds('addBatch'):.1f} s.",
        2 * cores,
        cores / tasks,
    )


def skew(m: Measured) -> Proposal | None:
    """R5: one task takes much longer than the others, and the batch waits for it."""
    longest, usual, stage = m.number("task_max"), m.number("task_p50"), m.number("stage_seconds")
    if m.number("tasks") < 2 or longest <= 3 * usual or usual <= 0 or longest < 0.8 * stage or longest < 0.5:
        return None
    batch, tasks = m.seconds("triggerExecution"), max(m.kafka_tasks, m.cores or 0, int(m.number("tasks")))
    saved = min(longest - usual, 0.9 * batch)
    found = f"The longest task of a batch takes {longest:.1f} s, and half of them less than {usual:.2f} s."
    return _min_partitions(m, "skew", found, 2 * tasks, batch / (batch - saved))


def _min_partitions(m: Measured, rule: str, found: str, wanted: int, predicted: float) -> Proposal | None:
    if m.option("minpartitions") >= wanted:
        return None
    change = Change(Where.OPTION, f"set minPartitions to {wanted}", options={"minpartitions": str(wanted)})
    needs = "a sink that does not need the order of a Kafka partition: several tasks read it"
    return Proposal(rule, m.name, found, change, predicted, "at most", needs)


def locality(m: Measured) -> Proposal | None:
    """R6: a stateless stage lasts much longer than its longest task, though every task had a core."""
    waited = m.number("stage_seconds") - m.number("task_max")
    free = 0 < m.number("tasks") <= (m.cores or 0)
    if not m.stateless or waited <= 1 or not free or m.conf.get("spark.locality.wait") in ("0", "0s", "0ms"):
        return None
    batch = m.seconds("triggerExecution")
    return Proposal(
        "locality",
        m.name,
        f"A stage of {m.number('tasks'):.0f} tasks takes {waited:.1f} s longer than its longest one, on {m.cores} "
        "cores: tasks wait for a place.",
        Change(Where.CONF, "spark.locality.wait: 0s", conf={"spark.locality.wait": "0s"}),
        batch / max(batch - waited, 0.1 * batch),
        "at most",
        "no state: there the wait keeps each partition where it is",
    )


def state_in_heap(m: Measured) -> Proposal | None:
    """R7: state in the heap that takes much of it, or makes it collect garbage."""
    share = m.number("state_bytes") / m.memory if m.memory else 0.0
    collects = m.gc_share or 0.0
    if m.stateless or m.rocksdb or (share <= 0.3 and collects <= 0.1):
        return None
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return Proposal(
        "state-in-heap",
        m.name,
        f"The state takes {m.number('state_bytes') / 2**20:,.0f} MiB, {share:.0%} of the executors' heap; garbage "
        f"collection takes {collects:.0%}.",
        Change(Where.CHECKPOINT, f"{PROVIDER}: {rocksdb}", conf={PROVIDER: rocksdb, CHANGELOG: "true"}),
        needs="a new checkpoint: Spark keeps the provider that is in the present one",
    )


def commit_bound(m: Measured) -> Proposal | None:
    """R8: much of a batch is spent on writing the checkpoint."""
    logs = m.share("walCommit", "commitOffsets", "commitBatch")
    state = m.number("state_commit_ms") / 1000 / max(m.cores or 1, 1) / m.seconds("triggerExecution")
    if logs <= 0.25 and state <= 0.25:
        return None
    found = f"{logs:.0%} of a batch is spent on the checkpoint's logs, and about {min(state, 1):.0%} on its state."
    change = Change(Where.CLUSTER, "put the checkpoint where files are written faster")
    if state > logs and m.rocksdb and m.conf.get(CHANGELOG) != "true":
        change = Change(Where.CONF, f"{CHANGELOG}: true", conf={CHANGELOG: "true"})
    return Proposal("commit-bound", m.name, found, change)


def planning(m: Measured) -> Proposal | None:
    """R9: much of a batch is spent on planning it."""
    share = m.share("queryPlanning")
    what = "use fewer columns and unions in the query, or a longer trigger"
    return _phase(m, "planning", share, f"{share:.0%} of a batch is spent on planning it.", what)


def fetch(m: Measured) -> Proposal | None:
    """R10: much of a batch is spent on asking Kafka for its last offsets."""
    share = m.share("latestOffset")
    what = "read fewer topics and partitions in the query, or use a longer trigger"
    return _phase(m, "fetch", share, f"{share:.0%} of a batch is spent on asking Kafka for its last offsets.", what)


def _phase(m: Measured, rule: str, share: float, found: str, what: str) -> Proposal | None:
    if share <= 0.2:
        return None
    return Proposal(rule, m.name, found, Change(Where.SCRIPT, what), 1 / max(1 - share, 0.1), "at most")


def python_rows(m: Measured) -> Proposal | None:
    """R11: Python functions get rows one by one, in the stage that a batch waits for."""
    add, stage = m.seconds("addBatch"), m.number("stage_seconds")
    known = m.kept.get("python_functions") and m.spark < (4, 2) and m.conf.get(ARROW) != "true"
    if not known or not add or stage < 0.5 * add:
        return None
    return Proposal(
        "python-rows",
        m.name,
        f"Python functions get row by row in a stage that takes {stage / add:.0%} of a batch.",
        Change(Where.CONF, f"{ARROW}: true, or pandas_udf in the script", conf={ARROW: "true"}),
        needs="pyarrow where the executors run",
    )


def capacity(m: Measured) -> Proposal | None:
    """R12: so much comes in that there is no room to catch up."""
    best, arriving = m.number("best_rate"), m.number("arriving")
    if not best or arriving / best <= BUSY:
        return None
    cores = m.cores or 1
    wanted = max(cores + 1, math.ceil(cores * arriving / (RIGHT * best)))
    return Proposal(
        "capacity",
        m.name,
        f"{arriving:,.0f} records come in each second, and its best full batch had {best:,.0f}: {arriving / best:.0%}.",
        Change(Where.CLUSTER, f"give the stream {wanted} cores instead of {cores}"),
        wanted / cores,
        "at most",
        "as many partitions of Kafka as cores, or minPartitions",
    )


def oversized(m: Measured, loads: Sequence[float]) -> Proposal | None:
    """R13: little came in for a week, also at its peak."""
    cores = m.cores or 1
    if not loads or cores < 2 or max(loads) >= IDLE_PEAK or sum(loads) / len(loads) >= IDLE:
        return None
    wanted = max(1, math.ceil(cores * max(loads) / RIGHT))
    if wanted >= cores:
        return None
    return Proposal(
        "oversized",
        m.name,
        f"Over a week {sum(loads) / len(loads):.0%} of its best rate came in, and at most {max(loads):.0%}.",
        Change(Where.CLUSTER, f"give the stream {wanted} cores instead of {cores}"),
        needs="a person's approval: it is slower then, and nothing but the cluster gains",
    )


def shuffle_200(m: Measured) -> Proposal | None:
    """R14: a foreachBatch without state shuffles into many more tasks than there are cores."""
    tasks, cores = int(m.number("tasks")), m.cores or 0
    default = int(m.conf.get(SHUFFLE, "200"))
    many = cores and tasks == default > 8 * cores
    if not many or not m.stateless or m.described.get("sink") != "foreachBatch" or m.spark >= (4, 1):
        return None
    return Proposal(
        "shuffle-200",
        m.name,
        f"A batch of {m.number('records'):,.0f} records is shuffled into {tasks} tasks on {cores} cores.",
        Change(
            Where.SCRIPT,
            f"in the function of foreachBatch set {SHUFFLE} of the batch's session to {2 * cores}",
            conf={SHUFFLE: str(2 * cores)},
        ),
        tasks / (2 * cores),
        "at most",
        "the function, or a new checkpoint: Spark keeps the number that is in the present one",
    )


def idle_trigger(m: Measured) -> Proposal | None:
    """R15: without a trigger, most looks for data find none, and each one asks Kafka."""
    share = m.number("empty_share")
    if share <= 0.5 or m.described.get("trigger") or not m.described:
        return None
    return Proposal(
        "idle-trigger",
        m.name,
        f"The query has no trigger, and {share:.0%} of its looks for data find none.",
        Change(Where.SCRIPT, 'trigger(processingTime="1 second")'),
        needs="records that may wait for a second",
    )


RULES = (
    read_again,
    state_partitions,
    idle_cores,
    skew,
    locality,
    state_in_heap,
    commit_bound,
    planning,
    fetch,
    python_rows,
    capacity,
    shuffle_200,
    idle_trigger,
)
