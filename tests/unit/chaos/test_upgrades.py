from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.holds import holds
from chaos.upgrades import wrong_holders
from tests.support.chaos_facts import later, timed
from tests.support.story import HANDED_OVER, NEW, PREPARED, fenced

RECORDS = [
    (replace(r, by="airflow:up/run-2/submit") if r.kind == "declared" and r["deployment"] in NEW else r, at)
    for r, at in timed(HANDED_OVER, end=100.0)
]


def upgrade(kind: str, **fields: Any) -> dict[str, Any]:
    line = {"at": 120.0, "what": "upgrade", "kind": kind, "run": "run-2", "expected": "failed", "ended": "failed"}
    return {**line, "seconds": 60.0, **fields}


def test_a_refused_release_never_acquires() -> None:
    [says] = wrong_holders([upgrade("refused")], RECORDS, holds(RECORDS))
    assert says.startswith(f"{NEW} acquired, though its release was to be refused")
    before = RECORDS[: len(PREPARED)]
    assert wrong_holders([upgrade("refused")], before, holds(before)) == []


def test_a_bad_release_does_not_hold_when_its_run_ends() -> None:
    [says] = wrong_holders([upgrade("bad")], RECORDS, holds(RECORDS))
    assert says.startswith(f"{NEW} of a bad release still held when its run run-2 ended as failed.")
    over = later(RECORDS, (fenced(NEW), 119.0))
    assert wrong_holders([upgrade("bad")], over, holds(over)) == []


@pytest.mark.parametrize(
    "other", [upgrade("good"), upgrade("bad", run="run-1"), upgrade("bad", ended="cancelled"), {"what": "fault"}]
)
def test_other_upgrades_may_hold(other: dict[str, Any]) -> None:
    assert wrong_holders([other], RECORDS, holds(RECORDS)) == []
