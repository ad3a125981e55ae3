"""Judge a run: what was lost, doubled or out of order, who held, what is left. Every failure is a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamState
from chaos.batches import Batch, Batches
from chaos.doubled import explain
from chaos.half_published import half_published
from chaos.holds import Hold, at_once, committed_by_nobody, holds
from chaos.interruptions import interruptions
from chaos.leftovers import lasting, leftovers
from chaos.matrix import cells_of
from chaos.patience import answered
from chaos.plan import FILES
from chaos.producer import JOURNAL, Produced, read_journal
from chaos.recorder import INPUT, Evidence
from chaos.records import Comparison, compare, some
from chaos.records import Place as RecordPlace
from chaos.report import Report
from chaos.stillness import Stillness, longest_outage, longest_stillness, stops_commits
from chaos.table import rows
from chaos.upgrades import unexpected_ends, untrue_operations, untrue_successes, wrong_holders
from demo.history import max_holders
from devstack.audit import TopicRecord, final_totals, read_topic, wrong_totals
from devstack.places import Pair
from devstack.workload import Total

RECOVERY_SECONDS = 180.0
ENRICHED, TOTALS = "orders-enriched", "order-totals"
ENRICH = "enrich"
"""The query that writes the enriched orders."""

Journal = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Facts:
    """Everything that a run is judged by; plain values, but for the topics, which are read once and never kept.

    :param produced: what the producer knows.
    :param inputs: all records of the input topic, which is the truth of what was produced.
    :param outputs: all enriched orders.
    :param totals: the last totals of each customer.
    :param batches: what is known of the batches, by query.
    :param records: the control log, each record with the time at which it was written.
    :param spans: when each driver said that it ran the queries, by incarnation, as first and last time.
    :param leftovers: a sentence for everything that was left behind.
    :param half_published: a sentence for everything that was left behind as it may be.
    :param unread: what the stream has not read; empty when it has read everything.
    :param gaps: a sentence for everything that was not recorded as it was.
    :param table: how often the table of the third query has each record of the input; None: there is no such query.
    """

    produced: Produced
    inputs: Iterable[TopicRecord] = ()
    outputs: Iterable[TopicRecord] = ()
    totals: Mapping[str, Total] | None = None
    batches: Mapping[str, Sequence[Batch]] | None = None
    records: Sequence[tuple[Record, float]] = ()
    spans: Mapping[str, Sequence[tuple[float, float]]] | None = None
    leftovers: frozenset[str] = frozenset()
    half_published: Sequence[str] = ()
    unread: str = ""
    gaps: Sequence[str] = ()
    table: Mapping[RecordPlace, int] | None = None


def check(
    evidence: Evidence, journal: Journal, *, seed: int, minutes: float, commit: str, pair: Pair = FILES
) -> Report:
    """Return the report of a run that is over: everything has healed, the producer has stopped, the stream still runs.

    :param evidence: what was recorded; its `with` block has ended.
    :param journal: what was done, as `chaos.journal` wrote it.
    :param pair: where the stream keeps its control log and its files.
    """
    return judge(collect(evidence, journal), journal, seed=seed, minutes=minutes, commit=commit, pair=pair)


def collect(evidence: Evidence, journal: Journal) -> Facts:
    """Return the facts of a run; it reads the topics, and waits up to a minute for what is just being cleared away."""

    log = evidence.log

    def allowed() -> dict[Place, str]:
        return half_published(evidence.releases, log.folder, journal)

    def left() -> set[str]:
        evidence.look()
        state = fold(record for record, _ in log.records)
        # A copy, here and below: the thread that reads a topic may add another driver.
        beats = {name: sighting.last for name, sighting in dict(log.sightings).items()}
        return leftovers(state, beats, log.folder, evidence.releases, evidence.checkpoints.values(), allowed())

    found = frozenset(lasting(lambda: answered(left)))
    return Facts(
        produced=read_journal(evidence.folder / JOURNAL),
        inputs=read_topic(evidence.brokers, INPUT),
        outputs=read_topic(evidence.brokers, ENRICHED),
        totals=final_totals(evidence.brokers, TOTALS),
        batches={query: evidence.batches(query) for query in evidence.checkpoints},
        records=tuple(log.records),
        spans={name: [(s.since, s.until) for s in seen.spans] for name, seen in dict(log.sightings).items()},
        leftovers=found,
        half_published=sorted(answered(allowed).values()),
        unread=evidence.unread(),
        gaps=evidence.gaps(),
        table=rows(evidence.table) if evidence.table else None,
    )


def judge(facts: Facts, journal: Journal, *, seed: int, minutes: float, commit: str, pair: Pair = FILES) -> Report:
    """Return the report of these facts."""
    held = holds(facts.records)
    state = fold(record for record, _ in facts.records)
    batches = {query: Batches(found) for query, found in (facts.batches or {}).items()}
    enriching = batches.get(ENRICH, Batches(()))
    compared = compare(facts.inputs, facts.outputs, enriching)
    doubled = explain(compared, enriching, interruptions(journal, held), held)
    wrong = _wrong_totals(compared, facts.totals or {})
    holders, together = at_once(facts.spans or {})
    by_log = max_holders(record for record, _ in facts.records)
    lost_rows, doubled_rows = _table(facts.table, compared)
    recovered = [float(line["seconds"]) for line in journal if line["what"] == "recovered"]
    still = longest_stillness(facts.batches or {}, journal)
    problems = [
        *(str(line["says"]) for line in journal if line["what"] == "problem"),
        *([f"The stream has not read everything: {facts.unread} Read its driver's log."] if facts.unread else []),
        *facts.gaps,
        *_of_faults(journal),
        *_of_kafka(facts, compared),
        *_of_records(compared),
        *(each.says for each in doubled if not each.explained),
        *_of_totals(wrong),
        *_of_table(lost_rows, doubled_rows),
        *_of_batches(facts.batches or {}, batches, held),
        *_of_log(state),
        *wrong_holders(journal, facts.records, held, pair),
        *_of_holders(by_log, together),
        *_of_recovery(journal, recovered),
        *_of_stillness(still),
        *unexpected_ends(journal),
        *untrue_successes(journal, facts.records, held),
        *untrue_operations(journal, facts.records, held),
        *(f"{left} Find out who should have ended or removed it." for left in sorted(facts.leftovers)),
    ]
    return Report(
        seed=seed,
        minutes=minutes,
        commit=commit,
        control=pair.control,
        storage=pair.storage,
        faults=_kinds(journal, "fault"),
        operations=_kinds(journal, "operation"),
        skipped=sum(line["what"] == "skipped" for line in journal),
        cells=cells_of(journal),
        upgrades=_kinds(journal, "upgrade"),
        produced=len(compared.produced),
        lost=len(compared.lost),
        doubled=sum(compared.doubled.values()),
        doubled_unexplained=sum(sum(each.copies.values()) for each in doubled if not each.explained),
        max_holders=max(holders, by_log),
        illegal_records=state.illegal_count,
        wrong_totals=len(wrong),
        table_rows=sum((facts.table or {}).values()),
        table_lost=len(lost_rows),
        table_doubled=sum(doubled_rows.values()),
        longest_recovery_seconds=round(max(still.seconds, *recovered, 0.0), 1),
        longest_outage_seconds=round(longest_outage(facts.batches or {}), 1),
        leftovers=len(facts.leftovers),
        problems=tuple(problems),
        explained=(*(each.says for each in doubled if each.explained), *facts.half_published),
    )


def _kinds(journal: Journal, what: str) -> dict[str, int]:
    # A plain one: `asdict` of the report cannot copy a Counter.
    return dict(Counter(str(line["kind"]) for line in journal if line["what"] == what))


def _of_faults(journal: Journal) -> list[str]:
    if any(line["what"] == "fault" for line in journal):
        return []
    return ["No fault happened, so the run shows nothing. Give it more minutes; its journal has what was skipped."]


def _of_kafka(facts: Facts, compared: Comparison) -> list[str]:
    missing = [number for number in facts.produced.acknowledged if number not in compared.produced]
    moved = [
        number
        for number, (partition, offset) in facts.produced.acknowledged.items()
        if number in compared.produced and (partition, offset) not in compared.produced[number]
    ]
    found = []
    if missing:
        found.append(f"Kafka lost {len(missing)} acknowledged orders: {some(missing)}. Read the broker's log.")
    if moved:
        found.append(
            f"{len(moved)} orders are not where Kafka acknowledged them, such as {some(moved)}. Read the broker's log."
        )
    if not compared.produced:
        found.append(f"The topic {INPUT} is empty, so the run shows nothing. Read the producer's journal.")
    return found


def _of_records(compared: Comparison) -> list[str]:
    found = []
    if compared.lost:
        first = min(compared.lost)
        found.append(
            f"{len(compared.lost)} orders were lost: {some(compared.lost)}. Order {first} is at {INPUT} "
            f"{tuple(compared.produced[first][0])}: look at the batch that read it."
        )
    if compared.reordered:
        found.append(
            f"{len(compared.reordered)} orders came after a later one of their customer: {some(compared.reordered)}. "
            f"Look at their places in {ENRICHED}."
        )
    if compared.wrong:
        record = compared.wrong[0]
        found.append(
            f"{len(compared.wrong)} records of {ENRICHED} are no produced order, such as that at partition "
            f"{record.partition}, offset {record.offset}: {record.value[:200]!r}. Look at the release that wrote it."
        )
    return found


def _wrong_totals(compared: Comparison, found: Mapping[str, Total]) -> dict[str, tuple[Total | None, Total | None]]:
    """Return the customers with wrong totals, each with those that the input gives and those that were found."""
    expected = compared.totals
    unknown = {name: (None, total) for name, total in found.items() if name not in expected}
    return {**wrong_totals(expected, found), **unknown}


def _of_totals(wrong: Mapping[str, tuple[Total | None, Total | None]]) -> list[str]:
    return [
        f"{len(wrong)} customers have wrong totals: {name} has {found}, and the input gives {right}. Look at the "
        "batches of totals."
        for name, (right, found) in sorted(wrong.items())[:1]
    ]


def _table(
    found: Mapping[RecordPlace, int] | None, compared: Comparison
) -> tuple[list[RecordPlace], dict[RecordPlace, int]]:
    """Return the records that the table lacks, and those that it has too often, each with how often too much."""
    if found is None:
        return [], {}
    lost = [place for places in compared.produced.values() for place in places if place not in found]
    return lost, {place: times - 1 for place, times in found.items() if times > 1}


def _of_table(lost: Sequence[RecordPlace], doubled: Mapping[RecordPlace, int]) -> list[str]:
    where = "Look at stream_ledger_history, and at the drivers' logs."
    found = []
    if lost:
        found.append(f"The table lacks {len(lost)} records, such as that at {INPUT} {tuple(min(lost))}. {where}")
    if doubled:
        found.append(f"The table has {len(doubled)} records too often, such as {tuple(min(doubled))}. {where}")
    return found


def _of_batches(
    known: Mapping[str, Sequence[Batch]], searched: Mapping[str, Batches], held: Sequence[Hold]
) -> list[str]:
    found = []
    for query, batches in searched.items():
        if batches.missing:
            found.append(
                f"The plans of {len(batches.missing)} batches of {query} were purged unseen: {some(batches.missing)}. "
                "Give the run more of the machine."
            )
        stray = committed_by_nobody(known[query], held)
        if stray:
            found.append(
                f"{len(stray)} batches of {query} were committed while nobody held the stream: "
                f"{some([batch.number for batch in stray])}. Look at the drivers' logs at {stray[0].committed:.1f}."
            )
    return found


def _of_log(state: StreamState) -> list[str]:
    return [
        f"Record {each.seq} of the control log ({each.kind}) breaks the rule {each.rule}. Find out who wrote it."
        for each in state.illegal
    ]


def _of_holders(by_log: int, together: Sequence[str]) -> list[str]:
    found = []
    if by_log > 1:
        found.append(f"{by_log} drivers held the stream at once by the control log. Read its `acquired` records.")
    if len(together) > 1:
        found.append(f"{' and '.join(together)} ran the queries at the same time. Read their logs.")
    return found


def _of_recovery(journal: Journal, recovered: Sequence[float]) -> list[str]:
    found = [
        f"The stream ran again only {seconds:.0f} s after its last fault; {RECOVERY_SECONDS:.0f} are allowed. "
        "Read the logs of the watch."
        for seconds in recovered
        if seconds > RECOVERY_SECONDS
    ]
    faults = (n for n, line in enumerate(journal) if line["what"] == "fault" and stops_commits(line["target"]))
    last = max(faults, default=None)
    if last is not None and not any(line["what"] == "recovered" for line in journal[last:]):
        found.append(f"Nobody saw the stream run again after fault {journal[last]['id']}. Read the logs of the watch.")
    return found


def _of_stillness(still: Stillness) -> list[str]:
    if still.seconds <= RECOVERY_SECONDS:
        return []
    return [
        f"{still.query} committed nothing for {still.seconds:.0f} s from {still.since:.1f} on, while no fault lasted; "
        f"{RECOVERY_SECONDS:.0f} are allowed. Read the control log of that time, and the logs of the watch."
    ]
