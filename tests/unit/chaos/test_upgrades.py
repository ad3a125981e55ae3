from __future__ import annotations

from typing import Any

import pytest

from chaos.holds import holds
from chaos.upgrades import EITHER, unexpected_ends, untrue_operations, untrue_successes, wrong_holders
from devstack.places import Pair
from tests.support.chaos_facts import fault, later, timed
from tests.support.story import HANDED_OVER, NEW, NEW_DEPLOYMENT, OLD_DEPLOYMENT, PREPARED, declared, fenced, wanted

WISH = wanted("new", "stand_by", by="airflow:up/run-2/submit")
# NEW serves the wish of a run, and was declared by the watch.
BEFORE = [
    WISH,
    *(declared(NEW_DEPLOYMENT, "new") if r.kind == "declared" and r["deployment"] in NEW else r for r in PREPARED),
]
RECORDS = list(timed([*BEFORE, *HANDED_OVER[len(PREPARED) :]], end=100.0))


def upgrade(kind: str, **fields: Any) -> dict[str, Any]:
    line = {"at": 120.0, "what": "upgrade", "kind": kind, "run": "run-2", "expected": "failed", "ended": "failed"}
    return {**line, "seconds": 60.0, **fields}


def test_a_refused_release_never_acquires() -> None:
    [says] = wrong_holders([upgrade("refused")], RECORDS, holds(RECORDS))
    assert says.startswith(f"{NEW} acquired, though its release was to be refused")
    before = RECORDS[: len(BEFORE)]
    assert wrong_holders([upgrade("refused")], before, holds(before)) == []


def test_a_bad_release_does_not_hold_when_its_run_ends() -> None:
    [says] = wrong_holders([upgrade("bad")], RECORDS, holds(RECORDS))
    assert says.startswith(f"{NEW} of a bad release still held when its run run-2 ended as failed.")
    over = later(RECORDS, (fenced(NEW), 119.0))
    assert wrong_holders([upgrade("bad")], over, holds(over)) == []


@pytest.mark.parametrize(
    "other", [upgrade("good"), upgrade("bad", run="run-1"), upgrade("bad", ended="cancelled"), fault(110.0)]
)
def test_other_upgrades_may_hold(other: dict[str, Any]) -> None:
    assert wrong_holders([other], RECORDS, holds(RECORDS)) == []


@pytest.mark.parametrize("target", ["task", "scheduler", "triggerer", "control"])
def test_a_bad_release_may_stay_when_its_judge_was_struck(target: str) -> None:
    held = holds(RECORDS)
    journal = [fault(90.0, target=target), {"at": 91.0, "what": "healed", "id": "f1"}]
    assert wrong_holders([*journal, upgrade("bad")], RECORDS, held) == []
    assert len(wrong_holders([*journal, upgrade("bad", ended="success")], RECORDS, held)) == 1
    assert len(wrong_holders([*journal, upgrade("bad", seconds=20.0)], RECORDS, held)) == 1
    assert len(wrong_holders([fault(90.0, target="executor"), upgrade("bad")], RECORDS, held)) == 1


@pytest.mark.parametrize("kind", ["good", "four_in_a_row", "two_at_once", "cleared_task"])
def test_a_success_means_that_a_deployment_of_the_run_acquired(kind: str) -> None:
    done = upgrade(kind, ended="success")
    struck = fault(110.0)
    assert untrue_successes([struck, done], RECORDS, holds(RECORDS)) == []
    before = RECORDS[: len(BEFORE)]
    [says] = untrue_successes([struck, done], before, holds(before))
    assert says.startswith(f"The run run-2 ({kind}) ended as success, and no deployment of it acquired.")
    assert untrue_successes([upgrade(kind)], before, holds(before)) == []
    assert len(untrue_successes([upgrade(kind, ended="success", run="run-1")], RECORDS, holds(RECORDS))) == 1


def operation(*did: str, **fields: Any) -> dict[str, Any]:
    line = {"at": 120.0, "what": "operation", "kind": did[0], "run": "run-3", "expected": "success", "ended": "success"}
    return {**line, "seconds": 22.0, "did": list(did), "holder": OLD_DEPLOYMENT, **fields}


def test_a_task_by_hand_that_succeeds_has_done_what_it_says() -> None:
    held = holds(RECORDS)

    def untrue(line: dict[str, Any], records: Any = RECORDS) -> int:
        return len(untrue_operations([line], records, holds(records)))

    assert untrue_operations([upgrade("good")], RECORDS, held) == []
    assert untrue(operation("roll-back")) == 0
    assert untrue(operation("roll-back", holder=NEW_DEPLOYMENT)) == 1
    assert untrue(operation("roll-back", seconds=10.0)) == 1
    assert untrue(operation("start")) == 0
    assert untrue(operation("start", seconds=10.0)) == 1
    assert untrue(operation("stop")) == 1
    assert untrue(operation("restart")) == 0
    assert untrue(operation("restart", seconds=10.0)) == 1
    stays = later(RECORDS, (wanted("stays", family="new", back=True, by="airflow:o/run-3/roll-back"), 119.0))
    assert untrue(operation("roll-back", holder=NEW_DEPLOYMENT), stays) == 0
    assert untrue(operation("fence")) == 1
    over = later(RECORDS, (fenced(NEW), 119.0))
    assert untrue(operation("fence"), over) == 0
    assert untrue(operation("stop"), over) == 0
    assert untrue(operation("abort")) == 0


def test_an_operation_ends_as_expected_where_no_fault_was() -> None:
    assert len(unexpected_ends([operation("stop", ended="failed")])) == 1
    assert unexpected_ends([operation("stop", ended="failed", expected=EITHER), operation("stop")]) == []


def test_of_two_at_once_either_may_fail() -> None:
    assert unexpected_ends([upgrade("two_at_once", expected=EITHER)]) == []
    assert len(unexpected_ends([upgrade("good", expected="success")])) == 1


@pytest.mark.parametrize(
    ("target", "pair", "stays"),
    [
        ("broker", Pair("kafka", "hdfs"), True),
        ("storage", Pair("kafka", "hdfs"), True),
        ("storage", Pair(storage="hdfs"), True),
        ("broker", Pair(), False),
        ("broker", Pair(storage="hdfs"), False),
    ],
)
def test_the_judge_needs_the_control_log_and_the_releases_wherever_they_are(
    target: str, pair: Pair, stays: bool
) -> None:
    journal = [fault(90.0, kind="freeze", target=target), {"at": 91.0, "what": "healed", "id": "f1"}, upgrade("bad")]
    assert (wrong_holders(journal, RECORDS, holds(RECORDS), pair) == []) == stays
