"""What holds for every unit test."""

from __future__ import annotations

import pytest

from airflow_stream_provider.kafka import connect


@pytest.fixture(autouse=True)
def _short_wait_for_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """No unit test has a broker, and one that names a closed port would wait for it for ten seconds each time."""
    monkeypatch.setattr(connect, "CONNECT_MS", 300)
