"""Which topics and options of its clients a stream's own record names."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.audit.kafka.facts import RecordedClients, recorded_clients
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.state import Incarnation, IncarnationState, StreamState

HOLDER, OTHER = "orders-1.00000001", "orders-2.00000002"


def query(*sources: str, **fields: Any) -> dict[str, Any]:
    return {"name": "a", "sources": list(sources), "sink": "delta", **fields}


def found(*queries: dict[str, Any], beat: Heartbeat | None = None) -> RecordedClients:
    holder = Incarnation(HOLDER, "orders-1", IncarnationState.FAILED, queries, epoch=1)
    standby = Incarnation(OTHER, "orders-2", IncarnationState.STANDBY, (query("kafka:subscribe=other"),))
    state = StreamState(incarnations={HOLDER: holder, OTHER: standby}, last_holder=HOLDER)
    return recorded_clients("orders", state, {HOLDER: beat} if beat else {})


def test_the_topics_are_those_of_the_last_holders_sources() -> None:
    queries = query("kafka:subscribe=orders, payments", "rate:"), query('kafka:assign={"refunds":[0,1]}')
    assert found(*queries).topics == ("orders", "payments", "refunds")


def test_the_topics_of_a_pattern_are_those_with_committed_offsets() -> None:
    beat = Heartbeat(queries=(QueryProgress("a", committed=({"orders-eu": {"0": 7}}, {"logOffset": 3}, 5)),))
    assert found(query("kafka:subscribePattern=orders-.*"), beat=beat).topics == ("orders-eu",)


def test_without_a_holder_the_newest_standby_is_asked() -> None:
    standby = Incarnation(OTHER, "orders-2", IncarnationState.STANDBY, (query("kafka:subscribe=other"),))
    assert recorded_clients("orders", StreamState(incarnations={OTHER: standby}), {}).topics == ("other",)


@pytest.mark.parametrize("queries", [(), (query("kafka:subscribePattern=.*"),), (query("kafka:assign={"),)])
def test_topics_that_are_not_known_are_never_an_empty_audit(queries: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(SpecError, match="has committed no batch yet"):
        found(*queries)
    with pytest.raises(SpecError, match="No driver of orders has announced itself"):
        recorded_clients("orders", StreamState(), {})


def test_of_two_values_the_one_that_loses_records_counts() -> None:
    lossy = query("kafka:subscribe=b", source_options=[{"failOnDataLoss": "false"}])
    sound = query("kafka:subscribe=a", source_options=[{"failOnDataLoss": "true"}])
    for queries in ((lossy, sound), (sound, lossy)):
        assert found(*queries).source == {"failOnDataLoss": "false"}
    assert found(sound, query("kafka:subscribe=b", source_options=[{}])).source == {"failOnDataLoss": "true"}


def test_what_a_driver_did_not_say_is_not_known() -> None:
    sound = query("kafka:subscribe=a", source_options=[{"failOnDataLoss": "true"}])
    assert found(query("kafka:subscribe=a")).source is None
    assert found(sound, query("kafka:subscribe=b")).source is None


def test_a_sink_is_known_unless_user_code_writes() -> None:
    def sink(kind: str, **fields: Any) -> Any:
        return found(query("kafka:subscribe=a", **{"sink": kind, **fields})).sink

    assert sink("delta") == {}
    assert sink("kafka", sink_options={"kafka.acks": "1"}) == {"kafka.acks": "1"}
    assert sink("kafka") is None
    assert sink("foreachBatch", sink_options={}) is None
