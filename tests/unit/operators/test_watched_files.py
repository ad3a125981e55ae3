"""Of which files that cannot be used people are told in common."""

from __future__ import annotations

from pathlib import Path

from airflow_stream_provider.operators.watched_files import MAX_BROKEN, read_watched, told_in_common, unusable

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
    folder = read_watched(tmp_path, dict)
    says, count = unusable(folder, {})
    assert (says.startswith("Their streams are not watched, as nothing is known of them: "), count) == (True, 1)
