"""Each rule fires on the numbers that were measured of its bottleneck, and stays silent without one of its reasons."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lifecycle.trial import Trial
from airflow_stream_provider.tuning.advise import advise, unmeasured
from airflow_stream_provider.tuning.proposal import Proposal, Where

# A batch of a stream that nothing is to be said of.
WELL = {
    "durations": {"triggerExecution": 1000, "addBatch": 900, "walCommit": 20, "commitOffsets": 20, "latestOffset": 20},
    "batches": 20,
    "records": 10_000,
    "rows": 10_000,
    "behind": 0,
    "tasks": 4,
    "task_p50": 0.5,
    "task_max": 0.6,
    "stage_seconds": 0.8,
}


def advised(
    *, conf: Any = None, options: Any = None, query: Any = None, said: Any = None, more: Any = None, **seen: Any
) -> list[Proposal]:
    """Return what is proposed for one query; names of `WELL` that are given replace its own, None leaves one out."""
    kept = {"options": options or {}, "kafka_partitions": 4, **(query or {})}
    environment = {"spark": "4.0.0", "conf": conf or {}, "cores": 2, "queries": {"q": kept}}
    vitals = {"cores": 2, "executors": 2, "queries": {"q": {**WELL, **seen}}}
    described = [{"name": "q", "sink": "noop", "trigger": {"processingTime": "1 second"}, **(said or {})}]
    return list(advise(environment, vitals, described, **(more or {})))


def durations(**milliseconds: int) -> dict[str, int]:
    return {**WELL["durations"], **milliseconds}  # type: ignore[dict-item]


def one(**given: Any) -> Proposal:
    (found,) = advised(**given)
    return found


SMALL: dict[str, Any] = {
    "durations": durations(triggerExecution=243, addBatch=120),
    "records": 1000,
    "rows": 1000,
    "full": 1.0,
    "behind": 50_000,
    "options": {"maxOffsetsPerTrigger": "1000"},
}
STATE: dict[str, Any] = {
    "durations": durations(triggerExecution=15_800, addBatch=15_500),
    "records": 2000,
    "rows": 2000,
    "state_partitions": 200,
}
CORES: dict[str, Any] = {"query": {"kafka_partitions": 1}, "tasks": 1, "task_p50": 0.7, "task_max": 0.7}
SKEW: dict[str, Any] = {"task_p50": 0.1, "task_max": 0.7}
LOCAL: dict[str, Any] = {"durations": durations(triggerExecution=4000, addBatch=3900), "tasks": 2, "stage_seconds": 3.7}
HEAP: dict[str, Any] = {"state_partitions": 4, "state_bytes": 900 * 2**20}
LOGS: dict[str, Any] = {"durations": durations(walCommit=200, commitOffsets=100, addBatch=600)}
PLAN: dict[str, Any] = {"durations": durations(queryPlanning=300, addBatch=600)}
FETCH: dict[str, Any] = {"durations": durations(latestOffset=300, addBatch=600)}
PYTHON: dict[str, Any] = {"query": {"python_functions": True}}
BUSY: dict[str, Any] = {"best_rate": 10_000.0, "arriving": 9000.0}
SHUFFLE: dict[str, Any] = {"tasks": 200, "said": {"sink": "foreachBatch"}}
EMPTY: dict[str, Any] = {"empty_share": 0.9, "said": {"trigger": {}}}
WEEK: dict[str, Any] = {"more": {"loads": {"q": [0.05, 0.2]}}}


@pytest.mark.parametrize(
    ("given", "rule", "where", "predicted"),
    [
        (SMALL, "small-batches", Where.OPTION, 1.7),
        ({**SMALL, "fit": [0.23, 0.00001]}, "small-batches", Where.OPTION, 11.2),
        ({"rows": 30_000}, "read-again", Where.SCRIPT, 3.0),
        (STATE, "state-partitions", Where.CHECKPOINT, 20.7),
        (CORES, "idle-cores", Where.OPTION, 2.0),
        (SKEW, "skew", Where.OPTION, 2.5),
        (LOCAL, "locality", Where.CONF, 4.4),
        (HEAP, "state-in-heap", Where.CHECKPOINT, None),
        (LOGS, "commit-bound", Where.CLUSTER, None),
        (PLAN, "planning", Where.SCRIPT, 1.4),
        (FETCH, "fetch", Where.SCRIPT, 1.4),
        (PYTHON, "python-rows", Where.CONF, None),
        (BUSY, "capacity", Where.CLUSTER, 1.5),
        (WEEK, "oversized", Where.CLUSTER, None),
        (SHUFFLE, "shuffle-200", Where.SCRIPT, 50.0),
        (EMPTY, "idle-trigger", Where.SCRIPT, None),
    ],
)
def test_a_rule_fires_on_its_bottleneck(given: Any, rule: str, where: Where, predicted: float | None) -> None:
    found = one(**given)
    assert (found.rule, found.query, found.change.where) == (rule, "q", where)
    assert found.predicted == (pytest.approx(predicted, abs=0.06) if predicted else None)
    assert found.found.endswith(".")


def test_a_stream_without_a_bottleneck_gets_no_advice() -> None:
    assert advised() == []


@pytest.mark.parametrize(
    "given",
    [
        {**SMALL, "behind": 0},
        {**SMALL, "full": 0.5},
        {**SMALL, "options": {}},
        {**SMALL, "durations": durations(triggerExecution=1000, addBatch=900)},
        {**SMALL, "more": {"wanted_seconds": 0.3}},
        {"rows": 14_000},
        {"rows": 5000},
        {**STATE, "records": 300_000, "rows": 300_000},
        {**STATE, "state_partitions": 8},
        {**CORES, "options": {"minPartitions": "4"}},
        {**CORES, "durations": durations(addBatch=300)},
        {**CORES, "stage_seconds": 1.5},
        {**LOCAL, "conf": {"spark.locality.wait": "0s"}},
        {**LOCAL, "tasks": 8},
        {**LOCAL, "state_partitions": 2},
        {**HEAP, "conf": {"spark.sql.streaming.stateStore.providerClass": "org.x.RocksDBStateStoreProvider"}},
        {**HEAP, "state_bytes": 2**20},
        {**PYTHON, "conf": {"spark.sql.execution.pythonUDF.arrow.enabled": "true"}},
        {**BUSY, "arriving": 6000.0},
        {**BUSY, "best_rate": None},
        {"more": {"loads": {"q": [0.05, 0.6]}}},
        {**SHUFFLE, "said": {"sink": "kafka"}},
        {**EMPTY, "said": {}},
    ],
)
def test_a_rule_is_silent_without_one_of_its_reasons(given: Any) -> None:
    assert advised(**given) == []


def test_a_batch_is_enlarged_as_far_as_the_wanted_latency_allows() -> None:
    found = one(**SMALL, fit=[0.23, 0.001], more={"wanted_seconds": 3.0})
    assert found.change.options == {"maxoffsetspertrigger": "2000"}


def test_changelog_checkpoints_are_proposed_where_the_state_is_in_rocksdb() -> None:
    provider = {"spark.sql.streaming.stateStore.providerClass": "org.x.RocksDBStateStoreProvider"}
    found = one(conf=provider, state_partitions=4, state_commit_ms=900)
    assert found.change.conf == {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}


@pytest.mark.parametrize("seen", [{"batches": 12}, {"records": None}, {"records": 0}, {"durations": None}])
def test_nothing_is_proposed_before_enough_is_measured(seen: Any) -> None:
    assert advised(**{**SMALL, **seen}) == []
    vitals = {"queries": {"q": {**WELL, **seen}}}
    assert unmeasured({}, vitals)[0].startswith("q: not enough measured.")


def test_what_a_trial_found_no_gain_in_is_not_proposed_again() -> None:
    proposed = one(**CORES).change.trial
    assert proposed == Trial(options={"minpartitions": "4"})
    assert advised(**CORES, more={"in_vain": [proposed]}) == []
    assert advised(**CORES, more={"in_vain": [Trial(options={"minpartitions": "9"}, rule="idle-cores")]}) == []
    assert advised(**CORES, more={"in_vain": [Trial(options={"minpartitions": "9"})]}) != []


def test_numbers_that_are_none_are_not_known() -> None:
    assert advised(best_rate="fast", arriving=True) == []
