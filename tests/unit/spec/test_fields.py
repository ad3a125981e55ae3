"""One field at a time; tests/unit/spec/test_stream.py has them in a file, with the line of an error."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from airflow_stream_provider.spec.fields import Count, Seconds, StreamName, Text, VariableName


@pytest.mark.parametrize(
    ("written", "found"),
    [("90s", 90.0), (" 10m ", 600.0), ("1h30m", 5400.0), ("0.5d", 43200.0), ("60", 60.0), (7, 7.0), (2.5, 2.5)],
)
def test_a_duration_is_read_in_seconds(written: Any, found: float) -> None:
    assert TypeAdapter(Seconds).validate_python(written) == found


@pytest.mark.parametrize(
    ("kind", "written", "sentence"),
    [
        (Seconds, "10 parsecs", "is not a duration: write it like 90s, 10m or 1h30m"),
        (Seconds, True, "is not a duration"),
        (Seconds, "1:30", "is not a duration"),
        (Seconds, [60], "is not a duration"),
        (Seconds, -1, "greater than or equal to 0"),
        (Seconds, 3651 * 86400, "less than or equal to 315360000"),
        (Count, 2**63, "less than or equal to"),
        (Text, "", "should have at least 1"),
        (VariableName, "AIRFLOW_HOME", "Those that begin with AIRFLOW_ belong to Airflow"),
        (StreamName, "../orders", "cannot be a stream's name"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(kind: Any, written: Any, sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(written)
    assert sentence in str(caught.value)
