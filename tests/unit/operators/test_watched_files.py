"""Files that cannot be used: how their streams are watched all the same, and who is told of them how."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.operators.watched_files import MAX_BROKEN, read_watched, told_in_common, unusable
from tests.support.watch_task import TOLD, Airflow

MANY = [f"s{number:02d}" for number in range(MAX_BROKEN + 1)]


def test_how_people_are_told_of_a_file_stays_so_for_as_long_as_it_is_broken() -> None:
    first = told_in_common(MANY, {})
    assert set(first.values()) == {True}
    fewer = told_in_common([*MANY[:5], "late"], first)
    assert fewer == {**dict.fromkeys(MANY[:5], True), "late": False}
    assert told_in_common(["late"], fewer) == {"late": False}
    assert told_in_common([], fewer) == {}
    again = told_in_common([*MANY, "late"], {"late": False})
    assert again == {**dict.fromkeys(MANY, True), "late": False}


def test_a_few_at_a_time_are_told_of_one_by_one_however_many_they_become() -> None:
    first = told_in_common(MANY[:-1], {})
    assert not any(told_in_common(MANY, first).values())


def test_what_is_told_in_common_is_counted(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text("[")
    folder = read_watched(tmp_path, dict, "", lambda left: ())
    says, count = unusable(folder, {})
    assert (says.startswith("Their streams are not watched, as nothing is known of them: "), count) == (True, 1)


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
    for number in range(MAX_BROKEN + 1):
        airflow.write(f"s{number}", "versoin: v1\n")
    airflow.look()
    assert not any(each.problem for each in airflow.asked)
    assert f"{MAX_BROKEN + 1} streams have a YAML that cannot be used" in TOLD[0][1].text
    assert f"And {MAX_BROKEN + 1 - 5} more." in TOLD[0][1].text
    told = len(TOLD)
    # Neither a file that is mended nor one more that breaks makes the others seem to be well, or told of twice.
    (airflow.folder / "s0.yaml").unlink()
    airflow.look()
    (airflow.folder / "payments.yaml").write_text("[")
    airflow.look()
    assert [each.spec.name for each in airflow.asked if each.problem] == ["payments"]
    for number in range(1, MAX_BROKEN + 1):
        airflow.write(f"s{number}")
    assert len(TOLD) == told
    airflow.look()
    assert {alert.open for _, alert in TOLD[told:]} == {False}
    assert {alert.stream for _, alert in TOLD} == {"streams-files"}


def test_a_few_files_that_break_one_after_the_other_keep_their_own_incidents(airflow: Airflow) -> None:
    for numbers in (range(MAX_BROKEN), range(MAX_BROKEN, MAX_BROKEN + 2)):
        for number in numbers:
            airflow.write(f"s{number}", "versoin: v1\n")
        airflow.look()
    assert sum(bool(each.problem) for each in airflow.asked) == MAX_BROKEN + 2
    assert TOLD == []


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
