from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_stream_provider.checkpoint.location import Storage, qualified, reach
from airflow_stream_provider.runtime.compatibility import (
    changes_position,
    compare_queries,
    late_queries,
    on_another_file_system,
)

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
SHUFFLE = "spark.sql.shuffle.partitions"
ONE = {"option": "subscribe", "topics": "orders", "servers": ["a:9092"], "read_committed": False, "cluster": "one-id"}


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
        ([{"name": "late", "checkpoint": "/data/late"}], [query()], "The query totals has a checkpoint, /data/totals"),
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
        (
            [query(sources=["kafka:subscribe=orders,returns"])],
            [query(sources=["kafka:subscribe= returns , orders,"])],
        ),
        (
            [query(sources=['kafka:assign={"orders":[0,1],"returns":[2]}'])],
            [query(sources=['kafka:assign={"returns": [2], "orders": [1, 0]}'])],
        ),
        ([query(sources=["json:path=/in"])], [query(sources=["json:path=file:///in/"])]),
        ([query(sink="json", target="/out")], [query(sink="json", target="file:///out/")]),
        ([query(sink="json", target="s3://b/out")], [query(sink="json", target="s3a://b//out")]),
        ([query(kafka_sources=[ONE])], [query(kafka_sources=[{**ONE, "servers": ["elsewhere:1"]}])]),
    ],
)
def test_what_spark_allows_passes(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
    assert compare_queries(old, new, ()) == ([], [])


@pytest.mark.parametrize("changes", [{"target": "another-topic"}, {"sink": "foreachBatch", "target": ""}])
def test_another_sink_without_a_log_of_its_own_is_said_and_not_refused(changes: dict[str, Any]) -> None:
    refusals, (note,) = compare_queries([query()], [query(**changes)], ())
    assert refusals == []
    assert "instead of kafka order-totals: from its next batch on, and nothing of the earlier ones" in note


def test_an_entry_of_the_form_names_one_change_and_switches_off_no_other_comparison() -> None:
    assert compare_queries([query()], [], ["/data/totals/"]) == ([], [])
    changed = query(sources=["kafka:subscribe=returns"], sink="json", target="/out", fingerprint=["Aggregate(max)"])
    reads, writes, computes = "reads kafka:subscribe=returns", "writes to json /out", "computes Aggregate(max)"
    for accepted, wrong, said in (
        (["/data/totals"], [reads, writes, computes], []),
        (["/data/totals: source"], [writes, computes], [reads]),
        (["file:///data/totals/: sink"], [reads, computes], [writes]),
        (["/data/totals: source", "/data/totals: sink", "/data/totals: sink_log"], [computes], [reads, writes]),
        (["/data/others: source"], [reads, writes, computes], []),
    ):
        refusals, notes = compare_queries([query()], [changed], accepted)
        assert all(text in refusal for text, refusal in zip(wrong, refusals, strict=True))
        assert all(text in note for text, note in zip(said, notes, strict=True))


def test_another_kafka_is_known_by_its_id_however_its_addresses_are_spelt() -> None:
    two = {**ONE, "cluster": "two-id"}
    (refusal,), notes = compare_queries([query(kafka_sources=[ONE])], [query(kafka_sources=[two])], ())
    assert refusal == (
        "The query totals reads orders from another Kafka, two-id (a:9092) instead of one-id (a:9092): the offsets in "
        "its checkpoint are those of other records there."
    )
    assert notes == []
    accepted = compare_queries([query(kafka_sources=[ONE])], [query(kafka_sources=[two])], ["/data/totals: source"])
    assert accepted == ([], [refusal])
    assert changes_position([query(kafka_sources=[ONE])], query(kafka_sources=[two])) == [refusal]
    assert changes_position([query(kafka_sources=[ONE])], query(kafka_sources=[ONE])) == []


def test_a_topic_that_was_made_anew_is_known_by_its_id() -> None:
    first, anew = ({**ONE, "topic_ids": {"orders": each, "same": "s"}} for each in ("first", "second"))
    (refusal,), notes = compare_queries([query(kafka_sources=[first])], [query(kafka_sources=[anew])], ())
    assert refusal == (
        "The query totals reads orders, deleted and made anew since the driver before came up. If that driver has read "
        "on in the new log, going on loses nothing; if not, the offsets in the checkpoint are those of other records."
    )
    assert notes == []
    # A driver of the same release that is brought back goes on: the one before may have lived through it long ago.
    back = compare_queries([query(kafka_sources=[first], same_script=True)], [query(kafka_sources=[anew])], ())
    assert back == ([], [refusal])
    stopped = query(kafka_sources=[first], same_script=True, stopped=True)
    assert compare_queries([stopped], [query(kafka_sources=[anew])], ()) == ([refusal], [])
    moved = query(kafka_sources=[{**ONE, "cluster": "two-id"}])
    assert "from another Kafka" in compare_queries([query(kafka_sources=[first], same_script=True)], [moved], ())[0][0]
    accepted = compare_queries([query(kafka_sources=[first])], [query(kafka_sources=[anew])], ["/data/totals: source"])
    assert accepted == ([], [refusal])
    assert changes_position([query(kafka_sources=[first])], query(kafka_sources=[anew])) == [], "there is a way back"
    for unknown in (ONE, {**ONE, "topic_ids": {}}, {**ONE, "topic_ids": None}):
        assert compare_queries([query(kafka_sources=[unknown])], [query(kafka_sources=[anew])], ()) == ([], [])
    # Nobody can tell: a driver without the right to DESCRIBE it, a pattern's first topics.
    committed = {"/data/totals/": ("orders",)}
    for old, new in ((ONE, anew), (first, ONE), (ONE, ONE), ({**ONE, "topic_ids": {"same": "s"}}, anew)):
        refusals, (note,) = compare_queries(
            [query(kafka_sources=[old])], [query(kafka_sources=[new])], (), committed=committed
        )
        assert refusals == []
        assert "was made anew since the driver before came up is not known of orders: not both drivers have" in note
    # Of a topic that it has not read yet there is nothing to say, nor of one that another source reads.
    for old, topics in ((anew, ("orders",)), (ONE, ()), (ONE, ("returns",))):
        found = compare_queries(
            [query(kafka_sources=[old])], [query(kafka_sources=[anew])], (), committed={"/data/totals": topics}
        )
        assert found == ([], [])
    many = {"/data/totals": [f"t{number}" for number in range(3000)]}
    pattern = query(kafka_sources=[{**ONE, "option": "subscribePattern", "topics": ".*"}])
    (note,) = compare_queries([pattern], [pattern], (), committed=many)[1]
    assert "is not known of t0, t1, t10 and 2997 more: " in note
    # In another Kafka it is another topic anyway, and that is said once.
    for cluster, said in (("two-id", (1, 0)), ("", (0, 1))):
        there = query(kafka_sources=[{**anew, "cluster": cluster}])
        found = compare_queries([query(kafka_sources=[first])], [there], (), committed=committed)
        assert tuple(map(len, found)) == said


def test_a_kafka_whose_id_is_not_known_is_said_and_not_refused() -> None:
    without = {key: value for key, value in ONE.items() if key != "cluster"}
    for old, new, who in ((ONE, without, "its driver could not"), (without, ONE, "the driver before could not")):
        refusals, (note,) = compare_queries([query(kafka_sources=[old])], [query(kafka_sources=[new])], ())
        assert refusals == []
        assert "Whether orders of the query totals is in the same Kafka as before is not known" in note
        assert who in note
    # Of a job that is adopted nobody has said what it read.
    pinned = {"/data/totals": {SHUFFLE: "2"}}
    refusals, (note,) = compare_queries([], [query(kafka_sources=[ONE])], (), pinned)
    assert (refusals, "are is not known: no driver of this stream has said" in note) == ([], True)
    assert compare_queries([], [query(kafka_sources=[ONE])], ()) == ([], []), "it has no batch yet"


@pytest.mark.parametrize("sink", ["parquet", "avro", "xml", "org.apache.spark.sql.avro.AvroFileFormat"])
def test_another_folder_of_a_file_sink_is_refused_whatever_the_format(sink: str) -> None:
    (refusal,), _ = compare_queries([query(sink=sink, target="/a")], [query(sink=sink, target="/b")], ())
    assert f"writes to {sink} /b instead of {sink} /a: a file sink skips the batch ids" in refusal
    # What Spark says counts: a format that brings a sink of its own is none.
    said = {"sink": sink, "file_sink": False}
    refusals, _ = compare_queries([query(**said, target="/a")], [query(**said, target="/b")], ())
    assert refusals == []


def test_a_copy_of_a_checkpoint_is_compared_with_the_query_that_wrote_it() -> None:
    there = query(checkpoint="hdfs://nn/totals", fingerprint=["Aggregate(max)"])
    named, pinned = ["/data/totals", "hdfs://nn/totals"], {"hdfs://nn/totals": {SHUFFLE: "2"}}
    (refusal,), _ = compare_queries([query()], [there], named, pinned)
    assert "the results are wrong" in refusal
    assert compare_queries([query()], [there], named, {"hdfs://nn/totals": {}}) == ([], []), "it begins anew"


def test_what_the_checkpoint_keeps_is_told_whatever_the_running_release_says() -> None:
    new = query(conf={SHUFFLE: "8", FORMAT: None})
    pinned = {"/data/totals/": {SHUFFLE: "2", FORMAT: "1", "other": "x"}}
    refusals, notes = compare_queries([query(conf={SHUFFLE: "8", FORMAT: "1"})], [new], (), pinned)
    assert refusals == []
    assert notes == [
        "The query totals keeps spark.sql.shuffle.partitions=2, as its checkpoint has it; this release's 8 is ignored."
    ]
    assert compare_queries([query()], [query()], (), pinned) == ([], [])
    assert compare_queries([query()], [new], ["/data/totals"], pinned) == ([], notes), "whatever is named"


@pytest.mark.parametrize(("session", "kept"), [("2", "1"), (None, "2"), ("1", "2")])
def test_another_format_of_the_state_is_refused(session: str | None, kept: str) -> None:
    new = query(conf={SHUFFLE: "2", FORMAT: session})
    refusals, _ = compare_queries([], [new], ["/data/totals"], {"/data/totals": {FORMAT: kept}})
    assert "cannot be read with the other format" in refusals[0]
    stateless = query(conf={SHUFFLE: "2", FORMAT: session}, fingerprint=[])
    refusals, _ = compare_queries([], [stateless], (), {"/data/totals": {FORMAT: kept}})
    assert refusals == [], "the rehearsal sees what it writes"


def test_a_query_that_was_started_late_is_known_by_its_checkpoint_only() -> None:
    late = {"name": "late", "checkpoint": "/data/late", "sink": "kafka"}
    new = query(name="late", checkpoint="/data/late/")
    assert compare_queries([query(), late], [query(), new], ()) == ([], [])
    assert compare_queries([query(), late], [query()], ["/data/late"]) == ([], [])


@pytest.mark.parametrize(
    "late",
    [
        {"name": "late", "checkpoint": "/data/late", "sink": "kafka"},
        query(name="late", checkpoint="/data/late", late=True),
    ],
)
def test_a_query_that_was_started_late_may_come_late_again(late: dict[str, Any]) -> None:
    """Found by a review: such a release could not be upgraded, by a refusal that was not true."""
    refusals, (note,) = compare_queries([query(), late], [query()], ())
    assert refusals == []
    assert "The query late with checkpoint /data/late, which the script of the release before has started late" in note
    assert "its input is not read any more" in note
    assert late_queries([query(), late], ()) == {"/data/late": "late"}
    assert late_queries([query(), late], ["/data/late/"]) == {}
    changed = query(name="late", checkpoint="/data/late", fingerprint=["Aggregate(max)"])
    assert len(compare_queries([query(), late], [query(), changed], ())[0]) == ("late" in late)


def test_the_same_script_may_start_late_what_it_has_started_late_before_or_something_early() -> None:
    """The watch brought a release back after its driver had died, and each rehearsal of it was refused."""
    late = {"name": "late", "checkpoint": "/data/late", "sink": "kafka", "same_script": True}
    before, early = query(same_script=True), query(name="late", checkpoint="/data/late/")
    assert compare_queries([before, late], [query()], ()) == ([], [])
    assert compare_queries([before, late], [query(), early], ()) == ([], [])
    assert compare_queries([before], [query(), early], ()) == ([], [])
    # Such as a checkpoint with the day in its name.
    (refusal,), _ = compare_queries([before], [query(checkpoint="/data/another")], ())
    assert "The query totals with checkpoint /data/totals is not started by this release" in refusal


@pytest.fixture
def default_fs(request: pytest.FixtureRequest) -> Iterator[None]:
    """This driver's `fs.defaultFS`."""
    reach(Storage(lambda: request.param, lambda root: None))  # type: ignore[arg-type, return-value]
    yield
    reach(None)


@pytest.mark.parametrize(
    ("default_fs", "recorded", "script", "was", "is_now"),
    [
        ("file:///", "/data/totals", "hdfs://nn:8020/data/totals", "file:", "hdfs://nn"),
        ("file:///", "hdfs://nn/data/totals", "s3a://bucket/cp/totals", "hdfs://nn", "s3a://bucket"),
        ("file:///", "s3a://bucket/totals", "s3a://other/totals", "s3a://bucket", "s3a://other"),
        ("file:///", "s3a://bucket/totals", "abfss://c@account/totals", "s3a://bucket", "abfss://c@account"),
        # The script is the same, and the cluster's fs.defaultFS another one.
        ("hdfs://two:9820", "hdfs://one:9820/data/totals", "/data/totals", "hdfs://one:9820", "hdfs://two:9820"),
        ("hdfs://two:9820", "hdfs://one:9820/data/totals", "hdfs:///data/totals", "hdfs://one:9820", "hdfs://two:9820"),
        ("file:///", "hdfs://one:9820/data/totals", "/data/totals", "hdfs://one:9820", "file:"),
        ("hdfs://one:9820", "/data/totals", "/data/totals", "file:", "hdfs://one:9820"),
        ("hdfs://one:9820", "file:/data/totals", "/data/totals", "file:", "hdfs://one:9820"),
    ],
    indirect=["default_fs"],
)
def test_a_checkpoint_on_another_file_system_than_before_is_said_to_be_there(
    default_fs: None, recorded: str, script: str, was: str, is_now: str
) -> None:
    old, new = [query(checkpoint=recorded)], [query(checkpoint=qualified(script))]
    (said,) = on_another_file_system(old, new, ())
    assert f"The query totals has its checkpoint on another file system than before: on {is_now} (" in said
    assert f" instead of {was} (" in said
    assert on_another_file_system(old, new, (recorded, script)) == []
    assert len(compare_queries(old, new, ())[0]) == 2
    assert compare_queries(old, new, (recorded, script)) == ([], [])


@pytest.mark.parametrize(
    ("default_fs", "recorded", "script"),
    [
        ("file:///", "/data/totals", "file:///data/totals/"),
        ("hdfs://nn:8020", "hdfs://nn/data/totals", "/data//totals"),
        ("hdfs://nn:9820", "hdfs://nn:9820/data/totals", "hdfs:///data/totals"),
        ("hdfs://nn:9820", "hdfs:///data/totals", "hdfs:///data/totals"),
        ("hdfs://nn:9820", "file:/data/totals", "file:/data/totals"),
        ("hdfs://nn:9820", "/data/totals", "file:/data/totals"),
        ("file:///", "s3://bucket/totals", "s3a://bucket/totals/"),
    ],
    indirect=["default_fs"],
)
def test_another_spelling_is_no_other_file_system(default_fs: None, recorded: str, script: str) -> None:
    old, new = [query(checkpoint=recorded)], [query(checkpoint=qualified(script))]
    assert on_another_file_system(old, new, ()) == []
    assert compare_queries(old, new, ()) == ([], [])


def test_each_query_that_moves_is_named_once() -> None:
    names = ("a", "b", "c")
    old = [query(name=name, checkpoint=f"/data/{name}") for name in names]
    new = [query(name=name, checkpoint=f"s3a://bucket/{name}") for name in ("b", "a")]
    said = on_another_file_system(old, [*new, query(name="c", checkpoint="/elsewhere/c")], ())
    assert [text.split()[2] for text in said] == ["a", "b"]
    (renamed,) = on_another_file_system(old, [query(name="z", checkpoint="hdfs://nn/data/b")], ())
    assert "The query z has its checkpoint on another file system" in renamed
    assert "instead of file: (/data/b)" in renamed
    assert on_another_file_system([], new, ()) == []
    assert on_another_file_system(old, [], ()) == []
