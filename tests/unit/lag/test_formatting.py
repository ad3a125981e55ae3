from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.texts import count, duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "?"),
        (0, "0 s"),
        (0.4, "0 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (7500, "2 h 5 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations_are_in_two_units(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_numbers_have_thousands_separators() -> None:
    assert [count(None), count(1, "record"), count(12000, "record")] == ["?", "1 record", "12,000 records"]
