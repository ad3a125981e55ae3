"""What is written today has the fields and types that were recorded as format 1, and no others.

Records are free objects, made in many places: the simulation runs the real plans, acts and control log, and all that
they write is held against the recorded ones. The other forms are read and written again, which must give the same
bytes. Records of real drivers: tests/integration/runtime/test_versions.py.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.checkpoint.owner import claim
from airflow_stream_provider.control import ControlLog, FilesRoot
from airflow_stream_provider.control.owners import FileOwners
from airflow_stream_provider.control.releases import make_release
from airflow_stream_provider.control.topic_owners import TopicOwners
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.hooks.submit import job_of
from airflow_stream_provider.kafka import control_root
from airflow_stream_provider.lag.report import LagReport, QueryLag
from airflow_stream_provider.lag.topic_ids import note
from airflow_stream_provider.lifecycle import saved_state
from airflow_stream_provider.lifecycle.formats import FORMAT_OF
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.kafka_source import KafkaIds
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.saved_state import dump, load
from airflow_stream_provider.monitoring.folder_memory import FolderMemory
from airflow_stream_provider.monitoring.incidents import IncidentState
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.operators.watch_memory import LookMemory
from airflow_stream_provider.planning.conditions import CONDITIONS
from airflow_stream_provider.planning.deaths import JobGone
from airflow_stream_provider.planning.lag_conditions import LAG_CONDITIONS
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome
from airflow_stream_provider.releases.manifest import manifest_of
from airflow_stream_provider.runtime import describe as describe_module
from airflow_stream_provider.runtime.batch_numbers import again_of
from airflow_stream_provider.runtime.describe import describe
from airflow_stream_provider.runtime.rehearsal import Rehearsal
from airflow_stream_provider.triggers.lag_event import STATE, _Event
from tests.support import story
from tests.support.fake_driver import FakeDriver
from tests.support.recorded import (
    ADDED,
    RECORD_MAPS,
    WHAT_TO_DO,
    check_written,
    check_written_heartbeat,
    check_written_record,
    lines,
    text,
    value,
    without_added,
    written_records,
)
from tests.support.scala_sequence import Items
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic
from tests.support.simulation import memory_store
from tests.support.simulation.one_seed import simulate

# So many seeds that nothing is missing which the plans and acts write.
SEEDS = 100
# What the simulation makes up itself.
MADE_UP = ("release", "policy", "queries", "rehearsal")
HOLDER = "orders-1-0-1a2b3c4d.4a5eb66a"
LOCATION = "hdfs://namenode.example/checkpoints/orders/out"


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (
            {"at": 1.5, "ends": {"x": {"batch": 2}}, "more": ""},
            r"\.more is written as text and was recorded as nothing",
        ),
        ({"ends": {}}, r"\.at is not written any more"),
        ({"at": "1", "ends": {}}, r"\.at is written as text and was recorded as number"),
        ({"at": 1, "ends": {"x": {"batch": 2.0}}}, r"\.batch is written as number and was recorded as whole number"),
        ({"at": 1, "ends": {"x": {"batch": True}}}, r"\.batch is written as truth value"),
        ({"at": 1, "ends": {"x": {"bach": 3}}}, r"\.ends\.\*\.batch is not written any more; \.ends\.\*\.bach is"),
        ({"at": 1, "ends": []}, r"\.ends is written as list"),
    ],
)
def test_what_is_written_otherwise_is_found(written: Any, found: str) -> None:
    recorded = [{"at": 1.0, "ends": {}}, {"at": 1.0, "ends": {"a": {"batch": 1}}, "to": None}]
    check_written(recorded, {"at": 1, "to": None, "ends": {"b": {"batch": 7}}}, {".ends"})
    with pytest.raises(AssertionError, match=found):
        check_written(recorded, written, {".ends"})


def test_what_was_added_is_left_out_if_it_has_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADDED, "a.json", {"new": "text or null", "queries/*/new": "number"})
    written = {"at": 1, "new": None, "queries": [{"new": 1.5, "old": 1}, {"old": 2}]}
    assert without_added("a.json", written) == {"at": 1, "queries": [{"old": 1}, {"old": 2}]}
    with pytest.raises(AssertionError, match="new is written as whole number and was added as text or null"):
        without_added("a.json", {"new": 7})


# -- records -----------------------------------------------------------------------------------------------------------


def recorded(kind: str) -> list[dict[str, Any]]:
    return [each for each in written_records() if each["kind"] == kind]


def check_part(kind: str, name: str, written: Any) -> None:
    """Check one field of a record, which somebody else makes than the rest of it."""
    known = [{name: each[name]} for each in recorded(kind) if name in each]
    check_written(known, without_added("log.jsonl", {name: written}), RECORD_MAPS)


@pytest.fixture(scope="module")
def written() -> list[dict[str, Any]]:
    """All records that real plans and acts have written in a simulated world, each form once."""
    found: dict[str, dict[str, Any]] = {}
    create = memory_store.MemoryStore.create

    def noting(store: memory_store.MemoryStore, seq: int, data: bytes) -> None:
        create(store, seq, data)
        record = json.loads(data)
        if record["by"].startswith(("airflow:", "driver:")):
            found[json.dumps({name: type(each).__name__ for name, each in record.items()}) + record["kind"]] = record

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_store.MemoryStore, "create", noting)
        for seed in range(SEEDS):
            assert not simulate(seed).broken
    assert len(found) > 20
    return list(found.values())


# What came later is in no file that format 1 has written.
OF_FORMAT_1 = {kind for kind, format in FORMAT_OF.items() if format == 1}


def test_every_kind_is_recorded() -> None:
    assert {each["kind"] for each in written_records()} == OF_FORMAT_1, WHAT_TO_DO


def test_records_of_tasks_watch_and_drivers(written: list[dict[str, Any]]) -> None:
    assert {each["kind"] for each in written} >= OF_FORMAT_1 - {"finished"}
    for each in written:
        check_written_record(Record.from_json(json.dumps(each).encode(), 1), MADE_UP)


def test_the_last_record_of_a_script_that_is_done() -> None:
    driver = FakeDriver(story.OLD, story.RUNNING).running()
    driver.agent.script_finished()
    assert driver.record().kind == "finished"
    check_written_record(driver.record())


def test_a_release_and_its_policy(tmp_path: Path) -> None:
    for name in ("orders.py", "helpers.py"):
        (tmp_path / name).write_text("")
    release, _ = make_release(
        version="1",
        application=tmp_path / "orders.py",
        arguments=["a"],
        py_files=[tmp_path / "helpers.py"],
        conf={"spark.cores.max": "2"},
        environment={"TZ": "UTC"},
    )
    for each in (release, Release("1", storage="s3a://bucket/streams")):
        check_part("declared", "release", each.to_json())
    for policy in (Policy(), Policy(changed_checkpoints=("/data/out",), no_way_back=True)):
        check_part("declared", "policy", policy.to_json())


def node(kind: str, children: Items, **more: Any) -> Any:
    named = SimpleNamespace(getSimpleName=lambda: kind)
    expressions = Items([SimpleNamespace(**leaf("Sum"), toString=lambda: "sum(v)")]) if not more else Items()
    return SimpleNamespace(getClass=lambda: named, children=lambda: children, expressions=lambda: expressions, **more)


def leaf(kind: str) -> dict[str, Any]:
    named = SimpleNamespace(getSimpleName=lambda: kind)
    return {"getClass": lambda: named, "children": Items}


class Options(dict[str, str]):
    """A map of Spark's, which takes names in any case."""

    def get(self, name: str, default: Any = None) -> Any:
        return {key.lower(): each for key, each in self.items()}.get(name.lower(), default)


@pytest.mark.parametrize("loss", [{}, {"failOnDataLoss": "true"}])
def test_a_query_as_its_standby_describes_it(loss: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_module, "is_file_sink", lambda query: False)
    options = Options({"subscribe": "orders-in", "kafka.bootstrap.servers": "kafka.example:9092", **loss})
    source = node("StreamingRelationV2", Items(), sourceName=lambda: "kafka", extraOptions=lambda: options)
    plan = node("Aggregate", Items([source]))
    plan.collectLeaves = lambda: Items([source])
    frame = SimpleNamespace(
        _jdf=SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: plan)),
        sparkSession=SimpleNamespace(
            conf=SimpleNamespace(get=lambda name, default: "2" if "shuffle" in name else None)
        ),
    )
    spec = SimpleNamespace(
        sink="kafka", sink_target="orders-out", options={"kafka.acks": "all"}, trigger={"once": True}
    )
    query: Any = SimpleNamespace(
        label="out",
        checkpoint="/data/out",
        writer=SimpleNamespace(_df=frame),
        writer_spec=spec,
        late=False,
        kafka_ids={("kafka.example:9092",): KafkaIds("an-id")},
    )
    said = describe(query)
    assert said["fingerprint"] == ["Aggregate(sum)"]
    check_part("standby", "queries", [said])


@pytest.mark.parametrize("batches", [[], [{"durationMs": {"triggerExecution": 1500}, "numInputRows": 7}]])
def test_the_summary_of_a_rehearsal(monkeypatch: pytest.MonkeyPatch, batches: list[Any]) -> None:
    nobody: Any = None
    made: Any = Rehearsal(nobody, Policy(), "orders-1.0000000a", nobody, nobody)
    monkeypatch.setattr(made._runs, "batches", lambda query, clone, wanted: batches)
    monkeypatch.setattr(made, "_prepare", lambda *given: ("a scratch", None))
    query = SimpleNamespace(writer=None, label="out", writer_spec=SimpleNamespace(foreach_batch=None, sink="noop"))
    summary = {"plan_seconds": 0.5, **made._warm(query, "/c"), "again": again_of({"batchId": 7, "durationMs": {}})}
    said = {"seconds": 1.5, "notes": ["a note"], "queries": {"out": summary}}
    check_part("standby", "rehearsal", said)
    made._policy, made._one_way = Policy(no_way_back=True), ["The query out writes commits/ in format v2."]
    check_part("standby", "rehearsal", {**said, **made._way_back()})


# -- what is read and written again ------------------------------------------------------------------------------------


def same(name: str, again: Any, recorded: Any = None) -> None:
    """Check that what was read from a recorded file, or a line of it, is written as it was."""
    expected = value(name) if recorded is None else recorded
    assert without_added(name, again) == expected, f"{name} is written otherwise. {WHAT_TO_DO}"


def test_records_keep_their_form() -> None:
    for number, line in enumerate(lines("log.jsonl"), 1):
        assert Record.from_json(line, number).to_json() == line, WHAT_TO_DO


def test_heartbeats() -> None:
    for line in lines("heartbeats.jsonl"):
        same("heartbeats.jsonl", json.loads(Heartbeat.from_json(line, HOLDER).to_json()), json.loads(line))
    # What a driver writes before it knows anything.
    check_written_heartbeat(Heartbeat())


def test_a_saved_state() -> None:
    """It has a number of its own: another form needs another number."""
    state = load(text("state.jsonl"))
    if state is None:
        assert json.loads(lines("state.jsonl")[0])["format"] < saved_state.FORMAT
    else:
        assert dump(state) == text("state.jsonl"), "raise FORMAT in lifecycle/saved_state.py"


def test_samples() -> None:
    for line in lines("lag.jsonl"):
        same("lag.jsonl", LagSample.from_json(json.loads(line)).to_json(), json.loads(line))


def test_what_a_look_of_the_watch_hands_to_the_next() -> None:
    look = LookMemory.from_json(value("look_memory.json"))
    same("look_memory.json", look.to_json())
    again = [IncidentState.from_json(each).to_json() for each in (look.incident, look.files)]
    handed = {"streams": FolderMemory.from_json(look.streams).to_json(look.at), "incident": again[0], "files": again[1]}
    same("look_memory.json", {**look.to_json(), **handed})


def test_events_of_triggers() -> None:
    same("events.json", [WaitOutcome.from_event(each).to_event() for each in value("events.json")])
    # A worker of an earlier version asks for the task to be cleared when it gets one that was added since.
    frozen = [each.value for each in Ended if each is not Ended.UNSENT]
    assert [each["ended"] for each in value("events.json")] == frozen, WHAT_TO_DO


def test_every_condition_is_recorded_with_its_fields() -> None:
    triggers = [arguments for _, arguments in value("triggers.json")]
    found = {each["condition"]["condition"]: each["condition"] for each in triggers if "condition" in each}
    # A triggerer of an earlier version asks for the task to be cleared when it gets one that was added since.
    frozen = [each for each in CONDITIONS if each is not JobGone]
    classes: dict[str, Any] = {each.__name__: each for each in (*frozen, *LAG_CONDITIONS)}
    assert set(found) == set(classes), WHAT_TO_DO
    for name, said in found.items():
        own = {field.name for field in dataclasses.fields(classes[name])}
        assert own == set(said) - {"condition"}, f"{name}: {WHAT_TO_DO}"


def test_the_lag_event_that_an_asset_keeps() -> None:
    kept = [_Event.from_json(each) for each in value("lag_incident.json")]
    same("lag_incident.json", [each.to_json() for each in kept if each])
    assert STATE == "lag_incident"


# -- where it lies -----------------------------------------------------------------------------------------------------


def files_in(folder: Path) -> set[str]:
    """The files below a folder, with hashes and random parts left out."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {re.sub(r"[0-9a-f]{64}", "HASH", name) for name in names}


def test_a_control_folder(tmp_path: Path) -> None:
    root = FilesRoot(tmp_path.as_uri())
    root.make()
    log = ControlLog(root.store("orders", create=True), "orders")
    story.write(log, story.declared(story.OLD_DEPLOYMENT))
    log.beat(story.OLD, Heartbeat())
    log.store.put_saved_state(dump(log.state))
    note(log.store, LagReport(1.0, (QueryLag("out", id="b66422f9", topic_ids={"orders-in": "q0s1"}),)))
    root.samples("orders").add(b"{}")
    root.note("orders")
    FileOwners(tmp_path).claim(LOCATION, "orders")
    assert files_in(tmp_path) == {
        ".control-root",
        ".owners/HASH.json",
        ".watched/orders",
        "orders/log/00000000000000000001.json",
        f"orders/heartbeats/{story.OLD}.json",
        "orders/state.jsonl",
        "orders/topics.json",
        "orders/lag.jsonl",
    }, WHAT_TO_DO
    (claimed,) = (tmp_path / ".owners").glob("*.json")
    assert claimed.read_bytes() == text("claim.json"), WHAT_TO_DO
    noted = json.loads((tmp_path / "orders" / "topics.json").read_bytes())
    check_written([value("topic_ids.json")], noted, {".queries", ".queries.*"})


def test_the_owner_of_a_checkpoint(tmp_path: Path) -> None:
    claim(tmp_path / "out", "orders", "file:///data/streams")
    assert (tmp_path / "out.owner").read_bytes() == text("checkpoint.owner"), WHAT_TO_DO
    claim(tmp_path / "new", "orders", "file:///data/streams", "0a" * 16)
    expected = {**json.loads(text("checkpoint.owner")), "log": "0a" * 16}
    assert json.loads((tmp_path / "new.owner").read_bytes()) == expected, WHAT_TO_DO


def messages(log: SimulatedLog) -> Iterator[dict[str, Any]]:
    """What was written, as it is recorded."""
    for each in log.messages:
        headers = {name: said.decode() for name, said in each.headers.items()}
        shown = None if each.value is None else each.value.decode()
        yield {"offset": each.offset, "key": (each.key or b"").decode(), "value": shown, "headers": headers}


def bare(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without the random part of its key, and when it came."""
    key = re.sub(r"(record/\d+|owner/[0-9a-f]{64})/[0-9a-f]{32}", r"\1/RANDOM", message["key"])
    return {"offset": message["offset"], "key": key, "value": message["value"], "headers": message["headers"]}


def test_a_control_topic() -> None:
    """What the recorded messages say is written again, message by message."""
    expected = value("topic.json")
    log = SimulatedLog()
    log.id = expected["id"]
    store = TopicStore(SimulatedTopic(log), "orders")
    for message in expected["messages"]:
        kind, _, name = message["key"].partition("/")
        said = (message["value"] or "").encode()
        if kind == "record":
            store.create(int(name.partition("/")[0]), said)
        elif kind == "heartbeat" and message["value"] is None:
            store.remove_heartbeat(name)
        elif kind == "heartbeat":
            store.put_heartbeat(name, said)
        elif kind == "look":
            store.catch_up()
        elif kind == "state":
            store.put_saved_state(said)
        elif kind == "topics":
            store.put_topic_ids(said)
        else:
            assert kind == "sample"
            store.add(said.partition(b" ")[2])
        for seq in range(1, 5):
            store.read(seq)  # a heartbeat renews no lease behind a record that its driver has not read
    assert [bare(each) for each in messages(log)] == [bare(each) for each in expected["messages"]], WHAT_TO_DO


def test_the_topic_of_a_root() -> None:
    recorded = value("root_topic.json")["messages"]
    keys = [each["key"] for each in recorded]
    assert keys[:2] == [control_root.MARKER, f"{control_root.SEEN}orders"], WHAT_TO_DO
    log = SimulatedLog()
    TopicOwners(lambda: SimulatedTopic(log)).claim(LOCATION, "orders")
    (claimed,) = messages(log)
    assert bare({**claimed, "offset": 2}) == bare(recorded[2]), WHAT_TO_DO


def test_the_options_of_a_launcher() -> None:
    release = Release.from_json(json.loads(lines("log.jsonl")[6])["release"])
    folder, first = Path("/data/streams/orders"), "orders-1-0-1a2b3c4d"
    mounted = job_of(FilesRoot("file:///data/streams"), "orders", folder, first, release, "/data/streams/releases/a")
    topics: Any = SimpleNamespace(
        url="kafka://kafka_default/streams", driver_arguments=lambda: ("--brokers", "kafka.example:9092")
    )
    fetched = job_of(topics, "orders", None, "orders-2-0-5e6f7a8b", release, "s3a://bucket/streams/orders/releases/a")
    same("launcher.json", [mounted.arguments, fetched.arguments])


def test_the_manifest_of_a_release() -> None:
    release = Release.from_json(json.loads(lines("log.jsonl")[6])["release"])
    files = {"launcher.py": b"1", "airflow_stream_runtime.zip": b"2", "orders.py": b"3", "helpers.py": b"4"}
    assert manifest_of(release, files) == text("manifest.json").rstrip(b"\n"), WHAT_TO_DO
