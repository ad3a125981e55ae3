"""Whether Kafka still has what a stream reads next."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lag.report import Ceilings, LagReport, PartitionState, QueryLag
from airflow_stream_provider.planning.kept_offsets import KeptOffsets, kept_offsets
from tests.support.lag_reports import partition, read_to, report

STRICT: list[dict[str, Any]] = [{"name": "enrich", "source_options": [{"failOnDataLoss": "true"}, {}]}]
LENIENT: list[dict[str, Any]] = [{"name": "enrich", "source_options": [{"failOnDataLoss": "False"}]}]


def test_what_is_there_needs_no_word() -> None:
    assert kept_offsets(report(read_to(), retention_seconds=7200.0), STRICT) == KeptOffsets()
    assert str(KeptOffsets()) == ""


def test_records_that_kafka_has_deleted_are_gone() -> None:
    found = kept_offsets(report(read_to(), read_to(1, log_start=95)), STRICT)
    assert found.gone == (
        "Kafka has deleted 5 records that the query enrich has not read: of t-1 it needs offset 90 next, and the log "
        "begins at 95. It stops with an error at that (failOnDataLoss).",
    )
    assert (found.skipped, found.near, found.unknown) == ((), (), ())


@pytest.mark.parametrize("queries", [STRICT, [], [{"name": "enrich"}], [{**LENIENT[0], "name": "other"}]])
def test_without_its_word_a_query_stops_at_a_loss(queries: list[dict[str, Any]]) -> None:
    assert kept_offsets(report(read_to(log_start=95)), queries).gone


def test_a_query_that_passes_over_a_loss_is_warned_of() -> None:
    found = kept_offsets(report(read_to(log_start=95)), LENIENT)
    assert found.gone == ()
    assert found.skipped[0].endswith("With failOnDataLoss=false it goes on with what is left, and says nothing.")


def test_a_topic_that_was_made_anew_or_is_not_there_is_gone() -> None:
    ahead = read_to(committed=200, state=PartitionState.AHEAD_OF_END)
    [text] = kept_offsets(report(ahead), STRICT).gone
    assert "needs offset 200 of t-0 next, and the log ends at 100" in text
    [text] = kept_offsets(report(read_to(), recreated=("t",)), STRICT).gone
    assert "counts in a topic that was deleted and made anew since: t." in text
    assert text.endswith("write `PATH: source`, with its checkpoint, in the form's `changed_checkpoints`.")
    [text] = kept_offsets(report(read_to(end=None, log_start=None, state=PartitionState.UNKNOWN_TOPIC)), STRICT).gone
    assert "reads what Kafka does not have any more: t." in text


def test_what_kafka_deletes_soon_is_near() -> None:
    soon = report(read_to(), retention_seconds=1800.0)
    assert kept_offsets(soon, STRICT).near == (
        "Kafka deletes the first records that the query enrich needs next in 30 min.",
    )
    assert kept_offsets(soon, STRICT, Ceilings(retention=600.0)) == KeptOffsets()
    short = report(read_to(), retention_seconds=1800.0, retained=3600.0)
    assert kept_offsets(short, STRICT) == KeptOffsets(), "half of what the topic keeps is left"


def test_what_is_not_known_is_said() -> None:
    [text] = kept_offsets(report(read_to(), retention_known=False), STRICT).unknown
    assert text == "Whether Kafka still has what the query enrich reads next is not known."
    silent = LagReport(1.0, (QueryLag("enrich", problem="The broker does not say."),))
    assert kept_offsets(silent, STRICT).unknown[0].endswith("is not known: The broker does not say.")
    assert kept_offsets(report(partition(None), problem="No leader."), STRICT).unknown


def test_only_some_queries_are_judged() -> None:
    lost = report(read_to(log_start=95))
    assert kept_offsets(lost, STRICT, only={"other"}) == KeptOffsets()
    assert kept_offsets(lost, STRICT, only={"enrich"}).gone
