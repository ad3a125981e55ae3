"""What is read again since a time, by a control log, real checkpoints, and a Kafka that answers what a test says."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kafka import TopicPartition

from airflow_stream_provider.hooks import rewind as module
from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.hooks.rewind import find_rewind
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.hooks.stream_releases import StreamReleases
from airflow_stream_provider.kafka import client
from airflow_stream_provider.kafka.answers import Answers, Problem
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.report import Ceilings
from airflow_stream_provider.lag.topic_ids import note
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.waits import Needs
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import load_spec
from devstack import checkpoint_trees as trees
from tests.support.kafka_logs import TOPIC_ID, KafkaLogs
from tests.support.story import OLD, OLD_DEPLOYMENT, acquired, declared, ready, record, requested, submitted, write

TO = 1764000000.5


class Kafka(KafkaLogs):
    """Has records at and after TO from offset 40 on in every partition, and deletes none by age."""

    problem = ""
    keeps = -1.0
    made = TOPIC_ID
    # Of partition 1, the log's start and when its records were written, in seconds since TO.
    second: tuple[int, Sequence[float]] | None = None

    def __init__(self, conn_id: str, extra: Mapping[str, Any]) -> None:
        age = time.time() - TO
        ages = [*[age + 60.0] * 40, *[age - 1.0] * 60]
        retention = str(round(self.keeps * 1000))
        other = (0, ages) if self.second is None else (self.second[0], [age - each for each in self.second[1]])
        super().__init__({0: (0, ages), 1: other}, topic_names=("orders",), retention=retention, conn_id=conn_id)
        self.topic_id = self.made
        self.brokers = [{"host": "broker", "port": 9092}]
        self.addresses = ("broker:9092",)

    def __enter__(self) -> Kafka:
        return self

    def __exit__(self, *error: object) -> None:
        return

    def offsets(
        self, specs: Mapping[TopicPartition, int], read_committed: bool = False
    ) -> Answers[TopicPartition, Any]:
        found = super().offsets(specs, read_committed)
        found.problems.update(dict.fromkeys(specs, Problem(5, self.problem)) if self.problem else {})
        return found


@pytest.fixture(autouse=True)
def _kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "KafkaClient", Kafka)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    root = trees.new(tmp_path / "checkpoints" / "out")
    for number in (0, 1):
        trees.plan(root, number, trees.kafka(orders={0: 60 + number, 1: 90 + number}))
        trees.commit(root, number)
    return root


def described(checkpoint: object, **more: Any) -> dict[str, Any]:
    sources = {"sources": ["kafka:subscribe=orders"], "fingerprint": []}
    return {"name": "out", "checkpoint": str(checkpoint), **sources, **more}


def holding(hook: StreamHook, *queries: Mapping[str, Any]) -> None:
    stands_by = record("standby", deployment=OLD_DEPLOYMENT, incarnation=OLD, queries=[*queries], rehearsal={})
    starts = [requested("start", OLD), ready("start", OLD), acquired(OLD, "start", 1)]
    write(hook.control_log, declared(OLD_DEPLOYMENT), submitted(OLD_DEPLOYMENT), stands_by, *starts)


def found(hook: StreamHook, to: float | None = TO, query: str = "") -> Any:
    return find_rewind(hook, hook.observe(), to, query, Ceilings())


def test_the_first_records_since_then_and_how_many_they_are(hook: StreamHook, checkpoint: Path) -> None:
    holding(hook, described(checkpoint))
    assert found(hook).wanted == WantedRewind(TO, {"out": {"orders": {0: 40, 1: 40}}})
    assert found(hook).lines == ("out: 72 records of orders.",)
    assert found(hook, query="out") == found(hook)


def test_what_kafka_is_about_to_delete_of_it_is_told(
    hook: StreamHook, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding(hook, described(checkpoint))
    assert found(hook).near == (), "nothing is deleted by age"
    monkeypatch.setattr(Kafka, "keeps", time.time() - TO + 1800.0)
    (said,) = found(hook).near
    assert said.startswith("Kafka deletes the first records that the query out reads again in 30 min")
    assert find_rewind(hook, hook.observe(), TO, "", Ceilings(retention=600.0)).near == ()


def test_what_nobody_knows_of_its_deletion_is_told(
    hook: StreamHook, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as without DESCRIBE_CONFIGS on the topic."""
    holding(hook, described(checkpoint))
    denied: Answers[str, Any] = Answers()
    denied.problems["orders"] = Problem(29, "Kafka refuses us.")
    monkeypatch.setattr(Kafka, "configs", lambda *args, **options: denied)
    (said,) = found(hook).near
    assert said.startswith("Whether Kafka still has what the query out reads next is not known: When Kafka deletes")


def test_a_partition_that_was_silent_for_longer_than_its_topic_keeps_records_hinders_nobody(
    hook: StreamHook, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of partition 1 Kafka has deleted what was written weeks ago, and the first record that is left is a late one."""
    holding(hook, described(checkpoint))
    monkeypatch.setattr(Kafka, "second", (80, [60.0] * 40))
    assert "may have deleted records" in found(hook).problem, "nothing is deleted by age: it was done by hand"
    monkeypatch.setattr(Kafka, "keeps", time.time() - TO + 7 * 86400.0)
    assert found(hook).wanted == WantedRewind(TO, {"out": {"orders": {0: 40, 1: 80}}})
    assert found(hook).lines[1].startswith("out: of 1 partition of orders Kafka has deleted the records before")
    monkeypatch.setattr(Kafka, "keeps", time.time() - TO - 60.0)
    assert "may have deleted records" in found(hook).problem


def test_a_topic_that_was_made_anew_is_told_by_every_look_ahead(
    hook: StreamHook, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its new log is longer than what was read of the old one: nothing but its id tells."""
    holding(hook, described(checkpoint))
    look = Needs(lag=Moments())
    first = hook.observe(look).lag
    assert first is not None
    note(hook.control_log.store, first)
    assert found(hook).near == ()
    assert "made anew" not in str(look_ahead(hook, Operation.FENCE))
    monkeypatch.setattr(Kafka, "made", UUID(int=8))
    (said,) = found(hook).near
    assert "The query out counts in a topic that was deleted and made anew since: orders." in said
    assert said in str(look_ahead(hook, Operation.FENCE))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"sources": ["kafka:subscribe=orders", "file:/in"]}, "it does not read Kafka alone (file:/in)"),
        ({"sources": []}, "it does not read Kafka alone (no source)"),
        ({"fingerprint": ["dedup"]}, "it keeps state, which has these records already"),
        (
            {"checkpoint": "abfss://c@a.example/cp"},
            "abfss://c@a.example/cp is neither in a mounted folder",
        ),
        ({"checkpoint": "/no/such/folder"}, "out"),
        (
            {"kafka_sources": [{"option": "subscribe", "topics": "orders", "servers": ["other:9092"]}]},
            "reads the Kafka at other:9092, which seems not to be the one of the connection",
        ),
    ],
)
def test_what_cannot_go_back_is_refused(hook: StreamHook, checkpoint: Path, more: dict[str, Any], why: str) -> None:
    holding(hook, {**described(checkpoint), **more})
    assert why in found(hook).problem
    assert found(hook).wanted is None


def test_a_checkpoint_with_state_is_refused_though_nobody_has_described_it(hook: StreamHook, checkpoint: Path) -> None:
    trees.operator(checkpoint, 0, "stateStoreSave", 1)
    holding(hook, described(checkpoint))
    assert "the query keeps state" in found(hook).problem


def test_a_checkpoint_that_only_the_drivers_may_enter_is_left_to_them(
    hook: StreamHook, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    holding(hook, described(checkpoint))
    with monkeypatch.context() as patched:
        patched.setattr(module, "local_path", lambda location: SimpleNamespace(is_dir=lambda: denied(checkpoint)))
        assert found(hook).wanted == WantedRewind(TO, {"out": {"orders": {0: 40, 1: 40}}})


@pytest.mark.parametrize("location", ["hdfs://namenode/cp", "s3a://bucket/cp"])
def test_so_is_one_on_hdfs_or_s3a_of_which_the_heartbeat_tells_how_far_it_is(hook: StreamHook, location: str) -> None:
    holding(hook, described(location))
    ends = {"orders": {"0": 61, "1": 91}}
    progress = QueryProgress("out", checkpoint=location, batch=1, committed=(ends,))
    hook.control_log.beat(OLD, Heartbeat(counter=1, at=time.time(), queries=(progress,)))
    assert found(hook).wanted == WantedRewind(TO, {"out": {"orders": {0: 40, 1: 40}}}), found(hook)


def test_of_several_queries_the_one_that_can_is_named(hook: StreamHook, checkpoint: Path) -> None:
    holding(hook, described(checkpoint), described("/cp/counts", name="counts", fingerprint=["count"]))
    assert "counts cannot be rewound" in found(hook).problem
    assert found(hook).problem.endswith("Or name one that can, with `--query`.")
    assert found(hook, query="out").lines == ("out: 72 records of orders.",)
    assert found(hook, query="other").problem == "There is no query 'other'. There are: counts, out."


def test_a_query_that_was_started_late_is_not_left_out_in_silence(hook: StreamHook, checkpoint: Path) -> None:
    """Found by a review: only the heartbeat knows of it, and all queries meant all the others."""
    holding(hook, described(checkpoint))
    queries = (QueryProgress("out"), QueryProgress("late"), QueryProgress("over", ended=True))
    hook.control_log.beat(OLD, Heartbeat(counter=1, at=time.time(), queries=queries))
    problem = found(hook).problem
    assert problem.startswith("The query late cannot be rewound: the script has started it only when its driver held")
    assert problem.endswith("Or name one that can, with `--query`.")
    assert found(hook, query="out").wanted is not None
    assert found(hook, query="late").problem.startswith("The query late cannot be rewound")


def test_without_a_time_a_kafka_or_its_answer_nothing_is_read_again(
    hook: StreamHook, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding(hook, described(checkpoint))
    assert "No time was given" in found(hook, None).problem
    monkeypatch.setattr(Kafka, "problem", "no leader")
    assert found(hook).problem == "Kafka does not say where that time is: no leader"
    hook.kafka_conn_id = None
    assert "names no connection `kafka`" in found(hook).problem


def spec_of(yaml: Path) -> RequestedRelease:
    return RequestedRelease.of(load_spec(yaml))


def test_a_look_ahead_tells_it_all(
    hook: StreamHook, checkpoint: Path, yaml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamReleases, "verify", lambda releases, release: {})
    monkeypatch.setattr(hook, "_lag", lambda *_: None)
    holding(hook, described(checkpoint))
    looked = look_ahead(hook, Operation.REWIND, spec_of(yaml), to=TO)
    assert looked.parts == (Operation.UPGRADE,), looked
    wanted = {**found(hook).wanted.to_json(), "held": OLD_DEPLOYMENT}
    assert json.loads(json.dumps(looked.to_json()))["rewind"] == wanted
    assert "out: 72 records of orders." in looked.reads_again
    with pytest.raises(SpecError, match="Only a rewind goes back to a time"):
        look_ahead(hook, Operation.UPGRADE, spec_of(yaml), to=TO)
    with pytest.raises(SpecError, match="Only a rewind goes back to a time"):
        look_ahead(hook, Operation.STOP, query="out")
