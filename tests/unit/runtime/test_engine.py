"""Which engines are refused before they hold a stream."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.runtime.refused import check_engine
from airflow_stream_provider.runtime.writer_spec import WriterSpec


@pytest.mark.parametrize(
    ("spec", "how"),
    [
        (WriterSpec(trigger={"continuous": "1 second"}), "in continuous mode"),
        (WriterSpec(trigger={"realTime": "5 minutes"}), "in real-time mode"),
        (WriterSpec(options={"asyncprogresstrackingenabled": "True"}), "with asynchronous progress tracking"),
    ],
)
def test_an_engine_without_boundaries_is_refused(spec: WriterSpec, how: str) -> None:
    with pytest.raises(RehearsalRefused, match=f"The query orders runs {how}"):
        check_engine("orders", spec)


@pytest.mark.parametrize(
    "spec",
    [
        WriterSpec(),
        WriterSpec(trigger={"processingTime": "1 second"}),
        WriterSpec(trigger={"availableNow": True}),
        WriterSpec(options={"asyncprogresstrackingenabled": "false"}),
    ],
)
def test_every_other_passes(spec: WriterSpec) -> None:
    check_engine("orders", spec)
