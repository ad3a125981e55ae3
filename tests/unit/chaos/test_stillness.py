from __future__ import annotations

import pytest

from chaos.batches import Batch
from chaos.stillness import Stillness, longest_outage, longest_stillness
from tests.support.chaos_facts import fault


def committed(*times: float) -> list[Batch]:
    return [Batch(number, {}, at - 1.0, at) for number, at in enumerate(times)]


def healed(at: float) -> dict[str, object]:
    return {"at": at, "what": "healed", "id": "f1"}


def test_it_is_the_longest_of_all_queries() -> None:
    batches = {"enrich": committed(1, 2, 5), "totals": committed(1, 9, 10)}
    assert longest_stillness(batches, []) == Stillness("totals", 1, 9)


@pytest.mark.parametrize(
    ("begins", "ends", "since"),
    [
        (0.0, 5.0, 10.0),  # over before
        (0.0, 12.0, 12.0),
        (11.0, 20.0, 20.0),
        (11.0, 500.0, 100.0),  # still lasts when the stream runs again
        (150.0, 160.0, 10.0),  # comes later
    ],
)
def test_the_time_of_a_fault_does_not_count(begins: float, ends: float, since: float) -> None:
    found = longest_stillness({"enrich": committed(10, 100)}, [fault(begins), healed(ends)])
    assert found.seconds == 100 - since


def test_one_more_commit_after_a_fault_hides_nothing() -> None:
    found = longest_stillness({"enrich": committed(10, 21, 300)}, [fault(15.0), healed(20.0)])
    assert found == Stillness("enrich", 21, 300)


def test_a_fault_that_stops_no_commits_does_not_begin_the_time_anew() -> None:
    short = [{**fault(at, target="triggerer"), "id": str(at)} for at in (100.0, 200.0, 300.0)]
    over = [{**healed(at + 1.0), "id": str(at)} for at in (100.0, 200.0, 300.0)]
    assert longest_stillness({"enrich": committed(10, 410)}, [*short, *over]).seconds == 400 - 3
    frozen = fault(100.0, kind="freeze", target="scheduler")
    assert longest_stillness({"enrich": committed(10, 410)}, [frozen, healed(160.0)]).seconds == 400 - 60


def test_the_time_of_a_stop_that_was_asked_for_does_not_count() -> None:
    asked = {"at": 70.0, "what": "operation", "kind": "stop", "seconds": 40.0}
    assert longest_stillness({"enrich": committed(10, 100)}, [asked]).seconds == 90 - 40
    assert longest_stillness({"enrich": committed(10, 100)}, [{**asked, "kind": "redeploy"}]).seconds == 90


def test_the_longest_outage_counts_whatever_the_faults() -> None:
    assert longest_outage({"enrich": committed(10, 100), "totals": committed(5, 120)}) == 115
    assert longest_outage({"enrich": []}) == 0
