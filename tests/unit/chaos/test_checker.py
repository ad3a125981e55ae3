"""The checker must be able to fail: a run in which one thing is wrong, and the sentence that says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.record import Record
from chaos.checker import judge
from chaos.producer import Produced
from devstack.audit import TopicRecord
from devstack.workload import CUSTOMERS, Total
from tests.support.chaos_facts import (
    NUMBERS,
    RECOVERED,
    batches,
    fault,
    good,
    in_two_holds,
    inputs,
    judged,
    later,
    outputs,
    timed,
)
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    RELEASED,
    RUNNING,
    acquired,
    failed,
    fenced,
    released,
    wanted,
)

# Orders 0 to 19 are in batch 0, 20 to 29 and 997 to 1006 in batch 1; the first half of each is written again.
AGAIN = {0: [0, 1, 2, 3], 1: [20, 21, 22, 23]}


HEALED = {"at": 106.0, "what": "healed", "id": "f1"}


def wished(records: Sequence[tuple[Record, float]], deployment: str, run: str) -> list[tuple[Record, float]]:
    """The log with a wish of a run before it, which a deployment serves."""
    wish = (wanted("wish", "stand_by", by=f"airflow:up/{run}/submit"), records[0][1] - 1.0)
    mine = (r.kind == "declared" and r["deployment"] == deployment for r, _ in records)
    serves = [
        (replace(r, fields={**r.fields, "family": "wish"}) if is_mine else r, at)
        for (r, at), is_mine in zip(records, mine, strict=True)
    ]
    return [(r.numbered(n), at) for n, (r, at) in enumerate([wish, *serves], 1)]


SUCCESS = {"expected": "success", "ended": "success"}


def doubled(batch: int) -> list[int]:
    """Return the numbers of the output when the beginning of a batch was written, and then all of it again."""
    where = NUMBERS.index(AGAIN[batch][0])
    return [*NUMBERS[:where], *AGAIN[batch], *NUMBERS[where:]]


def test_a_run_in_which_nothing_is_wrong() -> None:
    report = judged(good())
    assert report.problems == ()
    assert (report.produced, report.lost, report.doubled, report.max_holders) == (60, 0, 0, 1)


def test_a_run_without_a_fault_shows_nothing() -> None:
    skipped = {"at": 1.0, "what": "skipped", "id": "1.1", "why": "its event never came"}
    report = judge(good(), [skipped], seed=1, minutes=1.0, commit="abc")
    [says] = report.problems
    assert says.startswith("No fault happened")
    assert (report.faults, report.skipped) == ({}, 1)


def test_a_lost_order() -> None:
    report = judged(good(outputs=outputs(n for n in NUMBERS if n != 7)))
    assert report.lost == 1
    [says] = report.problems
    assert says.startswith("1 orders were lost: 7. Order 7 is at orders (1, 3)")


def test_an_order_that_is_twice_in_the_input_must_be_twice_in_the_output() -> None:
    twice = [*inputs(), TopicRecord(1, 30, *inputs([7])[0][2:])]
    report = judged(good(inputs=twice))
    assert report.lost == 1
    totals = good().totals or {}
    whole = good(inputs=twice, outputs=outputs([*NUMBERS, 7]), batches={"enrich": batches(4)})
    more = totals["customer-7"]
    cents = json.loads(inputs([7])[0].value)["cents"]
    right = {**totals, "customer-7": Total(more.orders + 1, more.cents + cents)}
    assert judged(replace(whole, totals=right)).problems == ()


def test_doubled_without_a_kill() -> None:
    report = judged(good(outputs=outputs(doubled(1))))
    assert (report.doubled, report.doubled_unexplained) == (4, 4)
    [says] = report.problems
    assert says.startswith(
        "4 orders were doubled (20, 21, 22, 23) without a reason: nothing cut off batch 1 of enrich, planned at 110.0"
    )


@pytest.mark.parametrize(("at", "unexplained"), [(112.0, 0), (102.0, 4), (123.0, 4), (118.0, 4)])
def test_a_kill_explains_the_batch_that_it_cut_off_and_no_other(at: float, unexplained: int) -> None:
    report = judged(good(outputs=outputs(doubled(1))), fault(at), RECOVERED)
    assert (report.doubled, report.doubled_unexplained) == (4, unexplained)
    assert bool(report.problems) == bool(unexplained)
    explained = (
        "4 orders were doubled (20, 21, 22, 23): fault f1 (kill of holder) cut off batch 1 of enrich, "
        "planned at 110.0, committed at 115.0.",
    )
    assert report.explained == (() if unexplained else explained)


@pytest.mark.parametrize(
    "harmless",
    [
        fault(112.0, incarnation=NEW),
        fault(112.0, incarnation=""),
        fault(112.0, target="executor", incarnation=NEW),
        fault(112.0, target="scheduler"),
        fault(112.0, target="task"),
        fault(112.0, kind="torn_heartbeat"),
        fault(112.0, kind="hang", target="control", incarnation=""),
    ],
)
def test_a_fault_that_ends_no_batch_explains_nothing(harmless: dict[str, object]) -> None:
    assert judged(good(outputs=outputs(doubled(1))), harmless, RECOVERED).doubled_unexplained == 4


@pytest.mark.parametrize(("target", "of"), [("executor", OLD), ("worker", ""), ("master", ""), ("broker", "")])
def test_a_part_of_the_cluster_that_is_killed_in_the_batch_explains_it(target: str, of: str) -> None:
    struck = fault(112.0, target=target, incarnation=of)
    assert judged(good(outputs=outputs(doubled(1))), struck, RECOVERED).problems == ()


def test_a_freeze_explains_what_was_open_at_any_moment_of_it() -> None:
    frozen = fault(98.0, kind="freeze", seconds=60.0)
    healed = {"at": 111.0, "what": "healed", "id": "f1"}
    assert judged(good(outputs=outputs(doubled(1))), frozen, healed, RECOVERED).doubled_unexplained == 0
    assert judged(good(outputs=outputs(doubled(1))), {**frozen, "seconds": 4.0}, RECOVERED).doubled_unexplained == 4


@pytest.mark.parametrize(
    ("end", "unexplained"),
    [
        (fenced(OLD), 0),
        (failed(OLD), 0),
        (released(OLD, None, None, "interrupted"), 0),
        (released(OLD, None, None), 1),
    ],
)
def test_a_hold_that_was_cut_off_in_the_batch_explains_it(end: Record, unexplained: int) -> None:
    report = judged(in_two_holds(end, 111.0, 114.0))
    assert (report.doubled, report.doubled_unexplained) == (1, unexplained)


def test_a_kill_long_after_a_batch_whose_commit_nobody_saw_explains_nothing() -> None:
    known = {"enrich": [replace(b, committed=None) if b.number == 1 else b for b in batches()]}
    report = judged(good(outputs=outputs(doubled(1)), batches=known), fault(123.0), RECOVERED)
    assert report.doubled_unexplained == 4


def test_what_was_not_recorded_is_a_problem() -> None:
    assert judged(good(gaps=("Record 3 is away.",))).problems == ("Record 3 is away.",)


def test_a_release_that_was_to_be_refused_and_held() -> None:
    facts = in_two_holds(fenced(OLD), 114.0)
    ended = {"at": 130.0, "what": "upgrade", "kind": "refused", "run": "run", "expected": "failed", "ended": "failed"}
    ended["seconds"] = 40.0
    [says] = judged(replace(facts, records=wished(facts.records, NEW_DEPLOYMENT, "run")), ended).problems
    assert says.startswith(f"{NEW} acquired, though its release was to be refused (run run).")


def test_a_hand_over_may_not_double_even_if_the_holder_says_that_it_was_interrupted() -> None:
    log = timed([*RELEASED[:-1], released(OLD, "up", NEW, "interrupted")], end=112.0)
    known = {"enrich": [replace(b, committed=None) if b.number else b for b in batches()]}
    assert judged(good(outputs=outputs(doubled(1)), records=log, batches=known)).doubled_unexplained == 4


def test_doubled_orders_whose_batch_nobody_has_seen_are_unexplained() -> None:
    known = {"enrich": [b for b in batches() if b.number != 1], "totals": batches()}
    report = judged(good(outputs=outputs(doubled(1)), batches=known), fault(112.0), RECOVERED)
    assert report.doubled_unexplained == 4
    assert any("nobody has seen the plan of their batch" in says for says in report.problems)
    assert any("The plans of 1 batches of enrich were purged unseen: 1." in says for says in report.problems)


def test_an_order_after_a_later_one_of_its_customer() -> None:
    swapped = [CUSTOMERS if n == 0 else 0 if n == CUSTOMERS else n for n in NUMBERS]
    [says] = judged(good(outputs=outputs(swapped))).problems
    assert says.startswith("1 orders came after a later one of their customer: 0.")


def test_orders_of_two_customers_may_change_places() -> None:
    assert judged(good(outputs=outputs(reversed(NUMBERS[:30])))).lost == 30
    assert judged(good(outputs=outputs([*reversed(NUMBERS[:30]), *NUMBERS[30:]]))).problems == ()


def test_a_copy_of_a_doubled_batch_is_not_reordered_besides() -> None:
    again = [*NUMBERS, *AGAIN[1]]
    assert judged(good(outputs=outputs(again)), fault(112.0), RECOVERED).problems == ()


@pytest.mark.parametrize("total", [Total(2, 1), None])
def test_a_wrong_or_missing_total(total: Total | None) -> None:
    right = good().totals or {}
    found = {name: value for name, value in right.items() if name != "customer-3"}
    report = judged(good(totals={**found, **({"customer-3": total} if total else {})}))
    assert report.wrong_totals == 1
    assert report.problems[0].startswith("1 customers have wrong totals: customer-3 has ")


def test_a_total_of_a_customer_who_ordered_nothing() -> None:
    report = judged(good(totals={**(good().totals or {}), "customer-99": Total(1, 1)}))
    assert report.wrong_totals == 1


@pytest.mark.parametrize("value", [b"{}", b"no JSON", b"[1]", b'{"id": 7, "customer": "customer-7", "cents": 1}'])
def test_a_record_that_nobody_produced(value: bytes) -> None:
    strange = TopicRecord(0, 99, b"7", value, 100.0)
    [says] = judged(good(outputs=[*outputs(), strange])).problems
    assert says.startswith("1 records of orders-enriched are no produced order")


def test_an_illegal_record() -> None:
    log = later(timed(RUNNING), (acquired(NEW, "start", 2), 112.0))
    report = judged(good(records=log))
    assert report.illegal_records == 1
    assert any("Record 7 of the control log (acquired) breaks the rule" in says for says in report.problems)


def test_two_holders_by_the_log() -> None:
    log = later(timed(RUNNING), (acquired(NEW, "start", 2), 112.0))
    report = judged(good(records=log))
    assert report.max_holders == 2
    assert any(says.startswith("2 drivers held the stream at once") for says in report.problems)


def test_two_holders_by_what_they_say() -> None:
    report = judged(good(spans={OLD: [(95.0, 120.0)], NEW: [(119.0, 130.0)]}))
    assert report.max_holders == 2
    assert report.problems == (f"{OLD} and {NEW} ran the queries at the same time. Read their logs.",)
    after = good(spans={OLD: [(95.0, 119.0), (120.5, 120.5)], NEW: [(119.0, 130.0)]})
    assert judged(after).problems == ()


def test_a_batch_that_was_committed_while_nobody_held() -> None:
    log = later(timed(RUNNING), (released(OLD, None, None), 112.0))
    [enrich, totals] = judged(good(records=log)).problems
    assert enrich.startswith("2 batches of enrich were committed while nobody held the stream: 1, 2.")
    assert totals.startswith("2 batches of totals")


def test_a_driver_that_was_cut_off_may_commit_until_it_is_fenced() -> None:
    log = later(timed(RUNNING), (released(OLD, None, None, "interrupted"), 112.0), (fenced(OLD), 130.0))
    assert judged(good(records=log)).problems == ()


def test_an_unknown_order_that_is_there_is_produced() -> None:
    known = {n: place for n, place in good().produced.acknowledged.items() if n != 7}
    report = judged(good(produced=Produced(known, frozenset({7}))))
    assert (report.produced, report.problems) == (60, ())
    lost = judged(good(produced=Produced(known, frozenset({7})), outputs=outputs(n for n in NUMBERS if n != 7)))
    assert lost.lost == 1


def test_an_unknown_order_that_is_not_there_was_not_produced() -> None:
    report = judged(good(produced=Produced(good().produced.acknowledged, frozenset({5000}))))
    assert (report.produced, report.lost, report.problems) == (60, 0, ())


def test_an_acknowledged_order_that_kafka_has_lost() -> None:
    known = {**good().produced.acknowledged, 5000: (0, 99)}
    [says] = judged(good(produced=Produced(known, frozenset()))).problems
    assert says.startswith("Kafka lost 1 acknowledged orders: 5000.")


def test_an_acknowledged_order_at_another_place() -> None:
    known = {**good().produced.acknowledged, 7: (0, 99)}
    [says] = judged(good(produced=Produced(known, frozenset()))).problems
    assert says.startswith("1 orders are not where Kafka acknowledged them, such as 7.")


def test_a_run_without_orders_shows_nothing() -> None:
    empty = good(produced=Produced({}, frozenset()), inputs=(), outputs=(), totals={})
    assert judged(empty).problems == (
        "The topic orders is empty, so the run shows nothing. Read the producer's journal.",
    )


def test_leftovers_and_what_was_not_read() -> None:
    report = judged(good(leftovers=frozenset({"/data/x is a temporary file."}), unread="enrich is at 3 of 4."))
    assert report.leftovers == 1
    assert report.problems == (
        "The stream has not read everything: enrich is at 3 of 4. Read its driver's log.",
        "/data/x is a temporary file. Find out who should have ended or removed it.",
    )


def test_a_release_whose_publish_a_fault_has_cut_off_is_told_and_no_problem() -> None:
    report = judged(good(half_published=("/data/.x was left.",)))
    assert report.problems == ()
    assert (report.leftovers, report.explained) == (0, ("/data/.x was left.",))


def test_a_recovery_that_took_too_long() -> None:
    report = judged(good(), fault(112.0), {**RECOVERED, "seconds": 181.0})
    assert report.longest_recovery_seconds == 181.0
    assert report.problems[0].startswith("The stream ran again only 181 s after its last fault; 180 are allowed.")
    assert judged(good(), fault(112.0), {**RECOVERED, "seconds": 180.0}).problems == ()


def test_a_stream_that_stood_still_later_though_it_had_recovered() -> None:
    first, second, third = batches()
    late = replace(third, planned=300.0, committed=305.0)
    report = judged(good(batches={"enrich": [first, second, late]}), fault(104.0), HEALED, RECOVERED)
    assert report.longest_recovery_seconds == 190.0
    assert any("committed nothing for 190 s" in says for says in report.problems)


def test_a_stream_that_never_ran_again() -> None:
    first, last = fault(104.0), fault(112.0, id="f2")
    [says] = judged(good(), first, RECOVERED, last).problems
    assert says.startswith("Nobody saw the stream run again after fault f2.")


def test_a_problem_of_the_run_itself() -> None:
    assert judged(good(), {"at": 1.0, "what": "problem", "says": "It rained."}).problems == ("It rained.",)


def test_a_standby_that_was_killed_does_not_explain_what_the_holder_doubled() -> None:
    struck = fault(102.0, target="standby", incarnation=NEW)
    assert judged(good(outputs=outputs(doubled(0)), records=timed(PREPARED)), struck).doubled_unexplained == 4


@pytest.mark.parametrize(
    ("ended", "struck", "found"),
    [
        ("failed", [], 1),
        ("failed", [fault(150.0), {"at": 155.0, "what": "healed", "id": "f1"}], 0),
        ("failed", [fault(50.0), {"at": 60.0, "what": "healed", "id": "f1"}], 0),
        ("failed", [fault(10.0), {"at": 20.0, "what": "healed", "id": "f1"}], 0),
        ("failed", [fault(10.0), {"at": 20.0, "what": "healed", "id": "f1"}, {**RECOVERED, "at": 30.0}], 1),
        ("failed", [fault(10.0, target="task"), {"at": 20.0, "what": "healed", "id": "f1"}], 1),
        ("failed", [fault(210.0), {"at": 220.0, "what": "healed", "id": "f1"}], 1),
        ("failed", [fault(10.0)], 0),
        ("success", [], 0),
        ("cancelled", [], 0),
    ],
)
def test_an_upgrade_that_ended_otherwise_needs_a_fault(ended: str, struck: list[dict[str, Any]], found: int) -> None:
    run = {"kind": "good", "run": "manual__1", "expected": "success", "ended": ended, "seconds": 100.0}
    lines = [*struck, RECOVERED, {"at": 200.0, "what": "upgrade", **run}]
    # OLD, whose release the run has brought in, acquired while it ran.
    log = [(r, at + 30.0) for r, at in wished(timed(RUNNING), OLD_DEPLOYMENT, "manual__1")]
    problems = judged(good(records=log, batches={}, outputs=outputs()), *lines).problems
    problems = tuple(says for says in problems if "manual__1" in says)
    assert len(problems) == found
    assert all("manual__1" in says for says in problems)
