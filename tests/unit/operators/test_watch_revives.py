"""What a look has brought back: which runs it triggers, and how many."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.operators.watch_look import MAX_REVIVED
from tests.support.watch_task import TOLD, Airflow


def test_what_is_to_be_brought_back_is_triggered(airflow: Airflow) -> None:
    airflow.revive = ("orders", "payments")
    airflow.active = {"p.payments__revive"}
    [trigger] = airflow.look()
    run = f"scheduled__{airflow.minute}"
    assert trigger == {
        "trigger_dag_id": "p.orders__revive",
        "trigger_run_id": f"watch__{run}",
        "conf": {"look": run},
    }
    assert "last_good" not in airflow.pushed


def test_a_run_that_waits_keeps_no_stream_from_what_can_be_done_now(airflow: Airflow) -> None:
    """Found by a review: for 25 minutes a run waited for a cluster, while a standby was up that nobody appointed."""
    airflow.revive, airflow.beside = ("orders", "payments"), frozenset({"orders"})
    airflow.active = {"p.orders__revive", "p.payments__revive"}
    assert [each["trigger_dag_id"] for each in airflow.look()] == ["p.orders__revive"]
    # One that waits for its turn looks anew when that comes.
    airflow.queued = {"p.orders__revive"}
    assert airflow.look() == []


def test_what_a_broken_stream_is_brought_back_with_is_in_xcom(airflow: Airflow) -> None:
    airflow.write("orders-eu", file="10-orders.yaml")
    airflow.look()
    (airflow.folder / "10-orders.yaml").write_text("[")
    airflow.revive = ("orders-eu",)
    [trigger] = airflow.look()
    assert trigger["trigger_dag_id"] == "p.10-orders__revive"
    assert airflow.pushed["last_good"]["10-orders"]["name"] == "orders-eu"


def test_a_look_triggers_only_so_many_and_the_next_ones_the_others(airflow: Airflow) -> None:
    names = [f"s{number:03}" for number in range(2 * MAX_REVIVED + 50)]
    for name in names:
        airflow.write(name)
    airflow.revive = tuple(names)
    triggered = [[each["trigger_dag_id"] for each in airflow.look()] for _ in range(3)]
    assert [len(each) for each in triggered] == [MAX_REVIVED] * 3
    # None of them stays active, as if each was skipped at once: all the same the others get their turn.
    assert {dag for each in triggered for dag in each} == {f"p.{name}__revive" for name in names}


def test_a_look_that_cannot_trigger_has_looked_all_the_same(airflow: Airflow) -> None:
    """Airflow's server may be away for a moment: nobody is told again by the next look of what this one has told."""
    airflow.look()
    airflow.revive = ("orders",)

    def away(dag_id: str, states: Any) -> int:
        raise ConnectionError("The server is away.")

    airflow.runs = away  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        airflow.look()
    assert airflow.pushed["memory"]["streams"] == {"looks": 2}
    assert "ConnectionError" in TOLD[0][1].text


def test_a_change_is_taken_up_once_two_looks_have_found_it(airflow: Airflow) -> None:
    """Files may be synchronized one after the other."""
    airflow.changed = {"orders": "1a__orders-1"}
    assert airflow.look() == []
    airflow.changed = {"orders": "2b__orders-1"}
    assert airflow.look() == []
    upgrade = {"trigger_dag_id": "p.orders__upgrade", "trigger_run_id": "change__2b__orders-1", "conf": {}}
    assert airflow.look() == [upgrade]
    # The same run again: it is skipped where it is there already, and a failed one is not repeated.
    assert airflow.look() == [upgrade]
    airflow.active = {"p.orders__upgrade"}
    assert airflow.look() == []
    airflow.active, airflow.changed = set(), {}
    assert airflow.look() == []


def test_a_change_of_a_stream_that_is_not_due_at_every_look_is_kept_until_it_is(airflow: Airflow) -> None:
    """The next look at the others forgot it, and it was never taken up."""
    airflow.write("slow", "watch: {schedule: 5m}\nupgrade: {on_change: true}\n")
    airflow.look()
    airflow.look()
    while "slow" not in airflow.names:
        airflow.look()
    airflow.changed = {"slow": "1a__slow-1"}
    assert airflow.look(run_type="manual") == []
    airflow.changed = {}
    assert airflow.look() == []
    assert "slow" not in airflow.names
    airflow.changed = {"slow": "1a__slow-1"}
    assert [each["trigger_run_id"] for each in airflow.look(run_type="manual")] == ["change__1a__slow-1"]
    airflow.changed = {}
    airflow.look(run_type="manual")
    assert airflow.pushed["memory"]["changed"] == {}
