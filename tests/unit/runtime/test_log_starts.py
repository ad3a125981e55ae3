"""What is refused before Kafka is asked; its answers are in tests/integration/runtime/test_rewind.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.runtime import log_starts
from airflow_stream_provider.runtime.log_starts import check_still_there


@pytest.mark.parametrize("servers", [("a:1", "b:1"), ()])
def test_a_query_of_which_nobody_knows_the_kafka_is_refused(
    servers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    relations = [SimpleNamespace(extraOptions=lambda each=each: {"kafka.bootstrap.servers": each}) for each in servers]
    monkeypatch.setattr(log_starts, "kafka_relations", lambda query: relations)
    query: Any = SimpleNamespace(label="lines")
    with pytest.raises(StreamError, match=r"lines reads several Kafka clusters.* Nothing was read again"):
        check_still_there(query, {"orders": {0: 7}})
