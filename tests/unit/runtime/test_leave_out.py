"""Kafka sources leave out what the stream skips, and a driver says so. Spark's reader is pretended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.lifecycle.skip import all_but
from airflow_stream_provider.runtime import gate
from airflow_stream_provider.runtime.gate import Gate

SKIP = ("orders-3@12@1764000000000",)


class Reader:
    def load(self, path: str = "", *, format: str = "kafka") -> Any:
        return SimpleNamespace(kafka=format == "kafka", where=lambda condition: condition)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A reader of the script's, whose class is patched in this test alone."""
    pretended = type("Reader", (Reader,), {})
    monkeypatch.setattr(gate, "DataStreamReader", pretended)
    monkeypatch.setattr(gate, "kafka_relations_of", lambda frame: [frame] if frame.kafka else [])
    return pretended()


def test_kafka_sources_leave_them_out_and_no_others(reader: Any) -> None:
    found = Gate()
    found.leave_out(SKIP)
    assert reader.load() == all_but(SKIP)
    assert not reader.load("/data", format="json").kafka
    assert found.skips() == 1


def test_without_a_list_nothing_is_patched(reader: Any) -> None:
    found = Gate()
    found.leave_out(())
    assert reader.load().kafka
    assert "load" not in vars(type(reader))
    assert found.skips() == 0


def test_a_script_whose_source_cannot_leave_them_out_is_refused(reader: Any) -> None:
    found = Gate()
    found.leave_out(SKIP)
    reader.load(format="json")
    with pytest.raises(RehearsalRefused, match=r"leaves out 1 records.*DataStreamReader\.load"):
        found.skips()
