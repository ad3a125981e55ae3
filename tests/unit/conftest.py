"""What holds for every unit test."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from airflow_stream_provider.kafka import connect
from airflow_stream_provider.operators import base

# A machine with other work to do is slow; no test judges by time.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _short_wait_for_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """No unit test has a broker, and one that names a closed port would wait for it for ten seconds each time."""
    monkeypatch.setattr(connect, "CONNECT_MS", 300)


@pytest.fixture(autouse=True)
def _tasks_defer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no driver runs, nothing that a try could wait for comes soon."""
    monkeypatch.setattr(base, "HERE_SECONDS", 0.0)
