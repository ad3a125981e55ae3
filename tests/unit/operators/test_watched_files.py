"""Files that cannot be used: how their streams are watched all the same, and who is told of them how."""

from __future__ import annotations

import pytest

from airflow_stream_provider.operators.watch_look import MAX_BROKEN
from tests.support.watch_task import TOLD, Airflow


def test_a_broken_file_is_watched_by_its_last_good_declaration(airflow: Airflow) -> None:
    airflow.write("orders", "lag: {max_records: 7}\n")
    airflow.look()
    assert set(airflow.pushed["declared"]) == {"orders.yaml", "payments.yaml"}
    (airflow.folder / "orders.yaml").write_text("[")
    airflow.look()
    assert "declared" not in airflow.pushed, "it has not changed"
    [orders] = [each for each in airflow.asked if each.spec.name == "orders"]
    assert orders.spec.lag.max_records == 7
    assert "orders.yaml, line 2: this is not YAML" in orders.problem


def test_a_file_that_is_unknown_hides_no_look_that_fails(airflow: Airflow) -> None:
    (airflow.folder / "kustomization.yaml").write_text("resources: []")
    airflow.look()
    assert [alert.stream for _, alert in TOLD] == ["streams-files"] * 2
    airflow.fails = RuntimeError("x")
    with pytest.raises(RuntimeError):
        airflow.look()
    assert [alert.stream for _, alert in TOLD[2:]] == ["streams"] * 2
    airflow.fails = None
    airflow.look()
    assert [(alert.stream, alert.open) for _, alert in TOLD[4:]] == [("streams", False)] * 2
    assert len({alert.incident for _, alert in TOLD}) == 2


def test_many_files_that_cannot_be_used_are_one_incident(airflow: Airflow) -> None:
    for number in range(MAX_BROKEN):
        airflow.write(f"s{number}", "versoin: v1\n")
    airflow.look()
    assert (sum(bool(each.problem) for each in airflow.asked), airflow.in_common, TOLD) == (MAX_BROKEN, False, [])
    airflow.write("one_more", "versoin: v1\n")
    for _ in range(2):
        airflow.look()
        assert airflow.in_common
    # The two of which nothing is wrong, and those that are broken: all that name somebody.
    assert {alert.stream for _, alert in TOLD} == {"streams-files"}
    assert f"{MAX_BROKEN + 1} streams have a YAML that cannot be used" in TOLD[0][1].text
    assert f"And {MAX_BROKEN + 1 - 5} more." in TOLD[0][1].text
    told = len(TOLD)
    for number in range(MAX_BROKEN):
        airflow.write(f"s{number}")
        if number % 10 == 0:
            airflow.look()
            assert airflow.in_common, "who mends them one by one is not told of each that is left"
    assert TOLD[told:] == []
    airflow.write("one_more")
    airflow.look()
    assert not airflow.in_common
    assert {alert.open for _, alert in TOLD[told:]} == {False}


def test_a_file_of_whose_stream_nothing_is_known_is_told(airflow: Airflow) -> None:
    (airflow.folder / "new.yaml").write_text("[")
    airflow.look()
    airflow.look()
    assert airflow.names == {"orders", "payments"}
    assert sorted(who for who, _ in TOLD) == ["orders", "payments"]
    assert "nothing is known of them" in TOLD[0][1].text
    assert "new.yaml, line 2" in TOLD[0][1].text
    # One more is told, though the first is still there.
    (airflow.folder / "newer.yaml").write_text("[")
    for _ in range(2):
        airflow.look()
    assert [("newer.yaml" in alert.text, alert.open) for _, alert in TOLD[2:]] == [(True, True)] * 2
