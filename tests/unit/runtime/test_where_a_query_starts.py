"""Where a query starts: behind what its former holder was seen to commit, or where it is to read again from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider import checkpoint
from airflow_stream_provider.checkpoint import Seen
from airflow_stream_provider.lifecycle.due_rewind import DueRewind
from airflow_stream_provider.lifecycle.errors import RehearsalRefused, StreamError
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.runtime import query_group, query_starts
from airflow_stream_provider.runtime.writer_spec import WriterSpec
from devstack import checkpoint_trees as trees
from tests.support.fake_queries import Query, group_of, started


@pytest.fixture
def awaited(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was waited for: where, what, and for how many seconds; all of it is there at once."""
    found: list[Any] = []

    def wait(location: str, seen: Seen, seconds: float) -> Seen:
        found.append((location, seen, seconds))
        return seen

    monkeypatch.setattr(checkpoint, "await_seen", wait)
    return found


def test_a_query_starts_only_where_its_former_holder_stopped(query: Query, awaited: list[Any]) -> None:
    claimed: list[str] = []
    group = group_of(query, claim=claimed.append)
    group.start(group.hold(), {query.checkpoint: Seen("a", 7), "/another": Seen("b", 9)})
    assert (awaited, claimed, query.starts) == ([(query.checkpoint, Seen("a", 7), 60.0)], [query.checkpoint], 1)
    query.fails("It is broken")
    group.restart([query])  # type: ignore[list-item]
    # It has begun after batch 7, and its own machine shows what it has committed.
    assert awaited[1:] == [(query.checkpoint, Seen("a", 7), 0.0)]


@pytest.mark.parametrize("spelling", ["{}/", "file:{}", "file://{}/"])
def test_a_release_that_writes_the_checkpoint_in_another_way_waits_too(
    spelling: str, query: Query, awaited: list[Any]
) -> None:
    """Found by a review: it was accepted as the same checkpoint, and began where this machine saw it end."""
    group = group_of(query)
    group.start(group.hold(), {spelling.format(query.checkpoint): Seen(batch=7)})
    query.checkpoint = spelling.format(query.checkpoint)
    group = group_of(query)
    group.start(group.hold(), {query.checkpoint: Seen(batch=8)})
    assert [seen.batch for _, seen, _ in awaited] == [7, 8]


def test_a_release_that_names_the_folder_behind_a_link_waits_too(tmp_path: Path, awaited: list[Any]) -> None:
    """Its form says that the checkpoint has changed; it is the one in which the former holder has just committed."""
    query = Query(tmp_path / "orders")
    (tmp_path / "link").symlink_to("orders")
    group = group_of(query)
    group.start(group.hold(), {str(tmp_path / "link"): Seen(batch=7)})
    assert [seen.batch for _, seen, _ in awaited] == [7]


def test_a_query_that_the_script_adds_waits_until_it_is_known_what_was_seen(query: Query, tmp_path: Path) -> None:
    group = group_of(query)
    queries = group.hold()
    late = Query(tmp_path / "late", "late")
    gate: Any = group._gate
    gate._start_late(late)
    gate.queries.append(late)
    assert (late.starts, "What the stream has seen of" in group.trouble) == (0, True)
    group.start(queries, {late.checkpoint: Seen(batch=7)})
    late.commits(7)
    group.restart([late])  # type: ignore[list-item]
    assert late.starts == 1


WANTED = WantedRewind(1764000000.0, {"orders": {"orders": {0: 3}}})


def due(query: Query, *, owed: bool = False) -> DueRewind:
    return DueRewind(WANTED, "orders-2", {query.checkpoint: 1}, owed)


@pytest.fixture
def rewindable(query: Query, monkeypatch: pytest.MonkeyPatch) -> Query:
    """The query has committed batches up to offset 9; Kafka has all of it."""
    for module in (query_group, query_starts):
        monkeypatch.setattr(module, "check_still_there", lambda query, wanted: None)
        monkeypatch.setattr(module, "sources_of", lambda query: ["kafka:subscribe=orders"])
    root = trees.new(Path(query.checkpoint))
    for number in (0, 1):
        trees.plan(root, number, trees.kafka(orders={0: 8 + number}))
        trees.commit(root, number)
    return query


def test_a_query_goes_back_once_its_former_holder_is_seen_and_the_checkpoint_is_claimed(
    rewindable: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed: list[str] = []
    group = group_of(rewindable, claim=claimed.append)
    queries = group.hold()
    group.check_rewind(WANTED)
    assert checkpoint.read(rewindable.checkpoint).committed == {"orders": {0: 9}}, "a check changes nothing"
    said = group.rewind(queries, due(rewindable), {rewindable.checkpoint: Seen(batch=1)})
    assert said == "orders goes back after batch 1, and reads 6 records again."
    assert (checkpoint.read(rewindable.checkpoint).committed, claimed) == ({"orders": {0: 3}}, [rewindable.checkpoint])
    assert rewindable.starts == 0
    monkeypatch.setattr(query_starts, "check_still_there", lambda query, wanted: pytest.fail("nobody reads them again"))
    assert group.rewind(queries, due(rewindable, owed=True), {}) == "", "it was done before"
    group.start(queries, {rewindable.checkpoint: Seen(batch=1)})
    assert rewindable.starts == 1


def test_where_the_log_does_not_say_where_it_stood_a_query_does_not_go_back(rewindable: Query) -> None:
    group = group_of(rewindable)
    elsewhere = due(rewindable)._replace(stood={"/another": 1})
    unknown = due(rewindable, owed=True)._replace(stood={})
    for each in (elsewhere, unknown):
        with pytest.raises(StreamError, match="does not say after which batch orders stood when orders-2 came to hold"):
            group.rewind(group.hold(), each, {})
    gone = WantedRewind(WANTED.to, {"gone": {"orders": {0: 3}}})
    for each in (elsewhere, due(rewindable)._replace(wanted=gone)):
        assert group.rewind(group.hold(), each._replace(owed=True), {}) == "", "it is another query by now"
    assert checkpoint.read(rewindable.checkpoint).committed == {"orders": {0: 9}}


def test_nothing_is_changed_where_one_query_cannot_go_back(
    rewindable: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, other = group_of(rewindable), Query(tmp_path / "other", "other")
    gate: Any = group._gate
    gate.queries.append(other)
    both = WantedRewind(1764000000.0, {**WANTED.queries, "other": {"orders": {0: 3}}})
    with pytest.raises(StreamError, match="There is no checkpoint at"):
        group.check_rewind(both)
    with pytest.raises(StreamError, match="does not say after which batch other stood"):
        group.rewind(group.hold(), due(rewindable)._replace(wanted=both), {})
    gone = WantedRewind(1764000000.0, {"gone": {"orders": {0: 3}}})
    with pytest.raises(StreamError, match="There is no query gone that could read records again"):
        group.check_rewind(gone)

    def deleted(query: object, wanted: object) -> None:
        raise StreamError("Kafka has deleted it.")

    for module in (query_group, query_starts):
        monkeypatch.setattr(module, "check_still_there", deleted)
    with pytest.raises(StreamError, match="Kafka has deleted it"):
        group.check_rewind(WANTED)  # while it rehearses: the stream runs on
    with pytest.raises(StreamError, match="Kafka has deleted it"):
        group.rewind(group.hold(), due(rewindable), {})
    assert checkpoint.read(rewindable.checkpoint).committed == {"orders": {0: 9}}


def test_a_query_starts_from_logs_that_were_listed_anew(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the simulation: after a fence a machine that knew an older listing ran committed batches again."""
    listed: list[tuple[str, int]] = []
    monkeypatch.setattr(checkpoint, "list_anew", lambda location: listed.append((location, query.starts)))
    started(query)
    assert (listed, query.starts) == ([(query.checkpoint, 0)], 1)


def test_an_engine_without_boundaries_does_not_start_late_either(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "writer_spec", WriterSpec(trigger={"continuous": "1 second"}))
    with pytest.raises(RehearsalRefused, match="The query orders runs in continuous mode"):
        started(query)
    assert query.starts == 0
