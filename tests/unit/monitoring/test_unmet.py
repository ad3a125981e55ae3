"""People are told where what is wished for a stream that runs is not so, and stays so without them."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.monitoring.health import unmet
from tests.support.snapshots import ASKED, BOTH, RUNNING, STOPPED, UPGRADED, WISHED, scene
from tests.support.story import NEW, OLD, aborted, failed, fenced, requested, wanted

LIVES = {OLD: True, NEW: True}
MISSED = [*ASKED, aborted("mine", at=900.0)]
for again in ("2", "3"):
    MISSED += [requested(again, NEW, wish="take"), aborted(again, at=900.0)]
REFUSED = [*RUNNING, wanted("new", "stand_by"), *BOTH[-3:-1], failed(NEW)]
TABLE: list[tuple[str, list[Record], str]] = [
    ("nothing is wished", [], ""),
    ("it is so", RUNNING, ""),
    ("it has been done", UPGRADED, ""),
    ("it rests", STOPPED, ""),
    ("it is down, which says so", [*RUNNING, fenced(OLD), failed(None, "orders-1-aaaa")], ""),
    ("a release stands by", BOTH, ""),
    ("a hand-over is under way", WISHED, ""),
    ("it was missed once", MISSED[:-4], ""),
    ("and three times", MISSED, "The hand-over to orders-2-bbbb.00000002 was aborted"),
    ("its rehearsal was refused", REFUSED, "(orders-2-bbbb) failed: it broke"),
    ("nobody has approved it", [*RUNNING, wanted("new", approval=True)], "a person has to approve"),
]  # fmt: skip


@pytest.mark.parametrize(("records", "says"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_wish_that_waits_for_a_person_is_told(records: list[Record], says: str) -> None:
    found = unmet(scene(*records, lives=LIVES))
    assert found.health is (Health.FAIL if says else Health.PASS)
    assert says in found.description
