"""What a script sees of its query's progress, and what the heartbeat tells of it for the scripts of other drivers."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.spark_progress import told_of
from tests.support.real_run import RealRun, Told, progress_json, writer


def test_a_heartbeat_tells_no_secrets_and_not_what_the_script_observes() -> None:
    sources = [{"description": "jdbc:postgresql://user:hunter2secret@db/orders", "endOffset": {"orders": {"0": 5}}}]
    body = progress_json(3, sources=sources, observedMetrics={"m": {"max(email)": "a@b.c"}})
    told: Any = told_of(body)
    assert "hunter2secret" not in str(told)
    assert "observedMetrics" not in told
    assert (told["sources"][0]["endOffset"], told["batchId"]) == ({"orders": {"0": 5}}, 3)
    assert body["sources"] == sources, "what Spark said is not changed"


def seen(query: ManagedQuery) -> tuple[Any, list[int]]:
    """The batch of the last progress, and those of all recent ones."""
    last: Any = query.lastProgress
    return last["batchId"], [each["batchId"] for each in query.recentProgress]


def runs_of(*runs: RealRun, told: Told | None = None) -> ManagedQuery:
    left: Any = iter(runs)
    return ManagedQuery(told or Told(), writer("/data/out"), lambda: next(left))


def silent() -> RealRun:
    """A run that has made no progress yet."""
    run = RealRun()
    run.said.clear()
    return run


def test_progress_goes_on_over_restarts_in_place() -> None:
    """Found by public monitors: they index it in a loop, and a cured failure ended the holder."""
    again = silent()
    query = runs_of(RealRun(6, 7), silent(), again)
    for expected in (7, 7, 7):
        query.start_real()
        assert seen(query) == (expected, [6, 7])
    again.said.extend(RealRun(8, 9).said)
    assert seen(query) == (9, [6, 7, 8, 9])


def test_a_start_that_fails_leaves_progress_as_it_was() -> None:
    query = runs_of(RealRun(6, 7))
    query.start_real()
    for _ in range(2):
        with pytest.raises(StopIteration):
            query.start_real()
    assert seen(query) == (7, [6, 7])


def test_as_many_are_kept_as_spark_keeps_of_a_run() -> None:
    query = runs_of(*(RealRun(*range(number, number + 30)) for number in range(0, 150, 30)), RealRun(*range(150, 300)))
    for _ in range(5):
        query.start_real()
    assert seen(query) == (149, [*range(50, 150)])
    assert len(query._progress._kept[0]) == 4
    query.start_real()
    assert seen(query) == (299, [*range(150, 300)])


def test_after_a_release_the_script_sees_how_far_the_holder_is() -> None:
    """Found by a review: `lastProgress` stood still, and a script's own commits went back beside the holder's."""
    told = Told()
    query = runs_of(RealRun(6, 7), silent(), told=told)
    query.start_real()
    run: Any = query.real
    run_id = query.runId
    run.isActive = told.holds = False
    assert (query.isActive, query.status["message"]) == (True, "Waiting to hold the stream")
    assert seen(query) == (7, [6, 7])
    nine = progress_json(9, runId="00000000-0000-0000-0000-0000000000bb", sources=[])
    for body in (nine, nine, progress_json(8)):  # the same again, and an older one
        query.follow(body)
    assert seen(query) == (9, [6, 7, 9])
    last: Any = query.lastProgress
    assert (type(last), last["runId"]) == (type(query.recentProgress[0]), nine["runId"])
    assert (query.runId, query.status["message"], query.exception()) == (run_id, "Waiting to hold the stream", None)
    query.start_real()
    assert seen(query) == (9, [6, 7, 9])


def test_what_is_told_of_another_release_of_spark_may_lack_something() -> None:
    query = runs_of(RealRun(7))
    query.start_real()
    body = progress_json(8)
    del body["batchDuration"], body["observedMetrics"]
    query.follow(body)
    query.follow(body)
    last: Any = query.lastProgress
    assert (last["batchDuration"], seen(query)) == (500, (8, [7, 8]))


@pytest.mark.parametrize("held", [False, True])
def test_a_script_that_has_seen_no_progress_sees_none_of_another_driver(held: bool) -> None:
    query = runs_of(silent())
    if held:
        query.start_real()
    query.follow(progress_json(9))
    assert (query.lastProgress, query.recentProgress) == (None, [])
