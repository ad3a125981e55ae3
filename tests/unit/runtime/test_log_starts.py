"""What is refused before Kafka is asked; its answers are in tests/integration/runtime/test_rewind.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.checkpoint.rewind import stepped_back
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.runtime import kafka_client
from airflow_stream_provider.runtime.kafka_client import SteppedBack, check_still_there, put_back
from devstack import checkpoint_trees as trees


@pytest.mark.parametrize("servers", [("a:1", "b:1"), ()])
def test_a_query_of_which_nobody_knows_the_kafka_is_refused(
    servers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    relations = [SimpleNamespace(extraOptions=lambda each=each: {"kafka.bootstrap.servers": each}) for each in servers]
    monkeypatch.setattr(kafka_client, "kafka_relations", lambda query: relations)
    query: Any = SimpleNamespace(label="lines")
    with pytest.raises(StreamError, match=r"lines reads several Kafka clusters.* Nothing was read again"):
        check_still_there(query, {"orders": {0: 7}})


@pytest.mark.parametrize("end", [19, 20, 35])
def test_a_batch_that_ends_before_it_begins_is_corrected_once_kafka_shows_the_whole_log_again(
    end: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a review: Spark has planned up to the earlier end by then, and plans no batch anew."""
    root = trees.new(tmp_path / "lines")
    trees.plan(root, 0, trees.kafka(orders={0: 20}))
    trees.commit(root, 0, at=100.0)
    trees.plan(root, 1, trees.kafka(orders={0: 10}))
    asked: list[object] = []

    def ask(query: object, wanted: object, spec: str, *words: str) -> dict[tuple[str, int], int]:
        asked.append((wanted, spec))
        return {("orders", 0): end}

    monkeypatch.setattr(kafka_client, "_ask", ask)
    query: Any = SimpleNamespace(label="lines", checkpoint=str(root))
    before = (root / "offsets" / "1").read_text()
    if end < 20:
        with pytest.raises(SteppedBack, match="orders-0 ends at offset 19, and lines has read it up to offset 20"):
            put_back(query)
        assert (root / "offsets" / "1").read_text() == before
    else:
        said = put_back(query)
        assert f"(orders-0 at 10), and shows more again (orders-0 up to {end})" in said
        assert stepped_back(root) is None
        assert put_back(query) == "", "there is nothing to do any more, and Kafka is not asked"
    assert asked == [({"orders": {0: 20}}, "latest")]
