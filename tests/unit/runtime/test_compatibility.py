from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.runtime.compatibility import compare_queries

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
SHUFFLE = "spark.sql.shuffle.partitions"


def query(**changes: Any) -> dict[str, Any]:
    described = {
        "name": "totals",
        "checkpoint": "/data/totals",
        "sink": "kafka",
        "target": "order-totals",
        "sources": ["kafka:subscribe=orders"],
        "fingerprint": ["Aggregate(sum)"],
        "conf": {SHUFFLE: "2", FORMAT: "1"},
    }
    return {**described, **changes}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ([query()], [], "is not started by this release"),
        (
            [query()],
            [query(), query(name="more", checkpoint="/data/more")],
            "would read its input again from the start",
        ),
        ([query()], [query(checkpoint="/data/totalz")], "is not started by this release"),
        ([query()], [query(sources=["kafka:subscribe=orders,returns"])], "reads an added topic from its start"),
        ([query()], [query(fingerprint=["Aggregate(max)"])], "the results are wrong"),
        ([query()], [query(sink="parquet", target="/out")], "a file sink skips the batch ids"),
        ([query(sink="json", target="/a")], [query(sink="json", target="/b")], "a file sink skips the batch ids"),
        ([{"name": "late", "checkpoint": "/data/late"}], [query()], "The query late with checkpoint /data/late is not"),
    ],
)
def test_a_difference_that_spark_would_accept_is_refused_by_name(
    old: list[dict[str, Any]], new: list[dict[str, Any]], says: str
) -> None:
    refusals, _ = compare_queries(old, new, ())

    assert says in refusals[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([query()], [query()]),
        ([], [query()]),
        ([query()], [query(checkpoint="/data/totals/")]),
        ([query()], [query(checkpoint="file:/data/totals")]),
        ([query()], [query(target="another-topic")]),
        ([query()], [query(sink="foreachBatch", target="")]),
    ],
)
def test_what_spark_allows_passes(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
    assert compare_queries(old, new, ()) == ([], [])


def test_a_checkpoint_named_in_the_form_is_accepted() -> None:
    assert compare_queries([query()], [query(fingerprint=["Aggregate(max)"])], ["/data/totals"]) == ([], [])
    assert compare_queries([query()], [], ["/data/totals/"]) == ([], [])


def test_what_the_checkpoint_keeps_is_told_whatever_the_running_release_says() -> None:
    new = query(conf={SHUFFLE: "8", FORMAT: None})
    pinned = {"/data/totals/": {SHUFFLE: "2", FORMAT: "1", "other": "x"}}
    refusals, notes = compare_queries([query(conf={SHUFFLE: "8", FORMAT: "1"})], [new], (), pinned)
    assert refusals == []
    assert notes == [
        "The query totals keeps spark.sql.shuffle.partitions=2, as its checkpoint has it; this release's 8 is ignored."
    ]
    assert compare_queries([query()], [query()], (), pinned) == ([], [])
    assert compare_queries([query()], [new], ["/data/totals"], pinned) == ([], [])


@pytest.mark.parametrize(("session", "kept"), [("2", "1"), (None, "2"), ("1", "2")])
def test_another_format_of_the_state_is_refused(session: str | None, kept: str) -> None:
    new = query(conf={SHUFFLE: "2", FORMAT: session})
    refusals, _ = compare_queries([], [new], (), {"/data/totals": {FORMAT: kept}})
    assert "cannot be read with the other format" in refusals[0]


def test_a_query_that_was_started_late_is_known_by_its_checkpoint_only() -> None:
    late = {"name": "late", "checkpoint": "/data/late", "sink": "kafka"}
    new = query(name="late", checkpoint="/data/late/")
    assert compare_queries([query(), late], [query(), new], ()) == ([], [])
    refusals, _ = compare_queries([query(), late], [query()], ())
    assert "The query late with checkpoint /data/late is not started by this release" in refusals[0]
    assert compare_queries([query(), late], [query()], ["/data/late"]) == ([], [])
