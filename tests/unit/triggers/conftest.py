from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable, SpecError
from airflow_stream_provider.triggers import shared_reader as sharing
from tests.support.watched_kafka import WatchedKafka


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedKafka]:
    """The Kafka of every connection but `missing`; checks that each client that was opened is closed."""
    found = WatchedKafka()

    class Client:
        def __init__(self, conn_id: str, extra: Any) -> None:
            assert extra == {"of": conn_id}
            found.opened += 1

        def close(self) -> None:
            found.closed += 1

    class Reader:
        def __init__(self, client: Any, roots: object) -> None:
            self.read = found.read

    async def extra(kafka: str) -> Any:
        if kafka == "missing":
            raise ConnectionUnavailable("There is no connection.", next_step="Create it.")
        if kafka == "wrong":
            raise SpecError("It has no host.")
        if kafka == "flaky" and found.unread:
            found.unread -= 1
            raise ConnectionUnavailable("There is no connection.", next_step="Create it.")
        return {"of": kafka}

    monkeypatch.setattr("airflow_stream_provider.kafka.client.KafkaClient", Client)
    monkeypatch.setattr(sharing, "LagReader", Reader)
    monkeypatch.setattr(sharing, "akafka_extra", extra)
    yield found
    found.answers.set()
    deadline = time.monotonic() + 60
    while found.closed < found.opened and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found.closed == found.opened
