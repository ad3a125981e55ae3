"""Each recorded file of format 1 means today what it meant when it was recorded.

Nothing of what is expected is made here: see tests/fixtures/format-1/README.md.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.owner import Owner, owner
from airflow_stream_provider.control import ControlLog, FilesRoot
from airflow_stream_provider.control.owners import FileOwners
from airflow_stream_provider.control.topic import Message
from airflow_stream_provider.control.topic_header import INDEX, from_header
from airflow_stream_provider.control.topic_owners import TopicOwners
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.lag import topic_ids
from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle import saved_state
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.saved_state import load
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.folder_memory import FolderMemory
from airflow_stream_provider.operators.watch_memory import LookMemory
from airflow_stream_provider.planning.condition import Condition
from airflow_stream_provider.planning.conditions import CONDITIONS
from airflow_stream_provider.planning.lag_conditions import LAG_CONDITIONS, LagCondition
from airflow_stream_provider.planning.soak import SoakLimits
from airflow_stream_provider.planning.wait_loop import condition_from_json
from airflow_stream_provider.planning.wait_outcome import WaitOutcome
from airflow_stream_provider.runtime.launcher import _options
from airflow_stream_provider.triggers.lag import LagTrigger
from airflow_stream_provider.triggers.lag_event import LagEventTrigger, _Event
from airflow_stream_provider.triggers.stream import StreamTrigger
from tests.support.recorded import WHAT_TO_DO, check_meaning, lines, text, value
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic

HOLDER, GONE = "orders-1-0-1a2b3c4d.4a5eb66a", "orders-2-0-5e6f7a8b.8970c12a"
LOCATION = "hdfs://namenode.example/checkpoints/orders/out"


@pytest.fixture
def control(tmp_path: Path) -> Path:
    """A control root on files, as the recorded version has left it: with the names of then."""
    stream = tmp_path / "orders"
    for folder in ("log", "heartbeats", "incoming", "releases"):
        (stream / folder).mkdir(parents=True)
    (tmp_path / ".control-root").write_text("")
    for number, line in enumerate(lines("log.jsonl"), 1):
        (stream / "log" / f"{number:020}.json").write_bytes(line)
    for name, line in zip((GONE, HOLDER), lines("heartbeats.jsonl"), strict=False):
        (stream / "heartbeats" / f"{name}.json").write_bytes(line)
    (stream / "state.jsonl").write_bytes(text("state.jsonl"))
    (stream / "lag.jsonl").write_bytes(text("lag.jsonl"))
    (stream / "topics.json").write_bytes(text("topic_ids.json"))
    (tmp_path / ".owners").mkdir()
    claim = hashlib.sha256(LOCATION.encode()).hexdigest()
    (tmp_path / ".owners" / f"{claim}.json").write_bytes(text("claim.json"))
    return tmp_path


def test_every_record_changes_the_state_as_it_did() -> None:
    state = StreamState()
    for number, line in enumerate(lines("log.jsonl"), 1):
        record = Record.read(line, number)
        state = fold([record], state)
        stage = state.open_request.stage.value if state.open_request else None
        after = [number, record.kind, state.phase.value, state.holder, state.epoch, stage, state.illegal_count]
        assert after == value("log.means.json")["after"][number - 1], WHAT_TO_DO
    check_meaning(value("log.means.json")["state"], state)


def test_a_control_folder(control: Path) -> None:
    root = FilesRoot(control.as_uri())
    root.check()
    log = ControlLog(root.store("orders"), "orders")
    check_meaning(value("log.means.json")["state"], log.refresh())
    assert len(log.records()) == len(lines("log.jsonl"))
    expected = value("heartbeats.means.json")
    for name, beat in zip((GONE, HOLDER), expected, strict=False):
        check_meaning(beat, log.heartbeat(name))
    assert log.store.heartbeats() == [HOLDER, GONE]
    check_meaning(value("lag.means.json"), samples.read(root.samples("orders")))
    assert topic_ids.read(log.store) == value("topic_ids.json")["queries"]
    assert FileOwners(control).owner(LOCATION) == "orders"


def test_a_saved_state() -> None:
    state = load(text("state.jsonl"))
    if state is None:  # the log is read from its first record instead
        assert json.loads(lines("state.jsonl")[0])["format"] != saved_state.FORMAT
    else:
        check_meaning(value("log.means.json")["state"], state)


def test_heartbeats() -> None:
    check_meaning(
        value("heartbeats.means.json"), [Heartbeat.from_json(line, "x") for line in lines("heartbeats.jsonl")]
    )


def test_the_owner_of_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "out.owner").write_bytes(text("checkpoint.owner"))
    assert owner(tmp_path / "out") == Owner("orders", "file:///data/streams")


def recorded_topic(name: str) -> SimulatedTopic:
    """A topic with the recorded messages."""
    recorded = value(name)
    log = SimulatedLog()
    log.id = recorded["id"]
    for each in recorded["messages"]:
        sent = None if each["value"] is None else each["value"].encode()
        headers = {header: said.encode() for header, said in each["headers"].items()}
        log.messages.append(Message(each["offset"], each["key"].encode(), sent, headers, each["at"]))
    log.end = len(log.messages)
    return SimulatedTopic(log)


def test_a_control_topic() -> None:
    store = TopicStore(recorded_topic("topic.json"), "orders")
    log = ControlLog(store, "orders")
    after = value("log.means.json")["after"][3]
    state = log.refresh()
    assert [state.seq, "requested", state.phase.value, state.holder, state.epoch] == after[:5]
    assert [record.nonce for record in log.records()] == [json.loads(line)["nonce"] for line in lines("log.jsonl")[:4]]
    assert store.heartbeats() == [HOLDER], "the other one was removed"
    check_meaning(value("heartbeats.means.json")[2], log.heartbeat(HOLDER))
    saved, _, _ = (store.saved_state() or b"").split(b"\n")
    assert json.loads(saved)["seq"] == 3
    assert topic_ids.read(store) == value("topic_ids.json")["queries"]
    check_meaning(value("lag.means.json"), samples.read(store))


def test_the_index_of_a_control_topic() -> None:
    recorded = value("topic.json")
    *_, last = (each for each in recorded["messages"] if INDEX in each["headers"])
    headers = {name: said.encode() for name, said in last["headers"].items()}
    index = from_header(Message(last["offset"], b"", b"", headers), recorded["id"], "orders")
    assert index is not None
    assert (index.next_offset, index.read_to.seq) == (12, 4)
    assert index.offsets == {1: 1, 2: 2, 3: 3, 4: 10}
    places = {key: (place.offset, place.count) for key, place in index.last.items()}
    assert places == {f"heartbeat/{HOLDER}": (4, 2), "state": (6, 0), "topics": (7, 0), "sample": (9, 2)}


def test_the_claims_in_the_topic_of_a_root() -> None:
    topic = recorded_topic("root_topic.json")
    owners = TopicOwners(lambda: topic)
    assert owners.owner(LOCATION) == "orders", "the first one counts"
    assert owners.owner("s3a://bucket/gone") is None, "it was removed"


def test_triggers_and_what_they_wait_for() -> None:
    expected = iter(value("triggers.means.json"))
    classes = {
        f"airflow_stream_provider.triggers.{name}.{each.__name__}": each
        for name, each in (("stream", StreamTrigger), ("lag", LagTrigger), ("lag_event", LagEventTrigger))
    }
    for path, arguments in value("triggers.json"):
        trigger = classes[path](**arguments)
        assert json.loads(json.dumps(trigger.serialize())) == [path, arguments], WHAT_TO_DO
        if isinstance(trigger, LagEventTrigger):
            assert LagTarget(**trigger.target) == LagTarget("kafka_default", "orders", "file:///data/streams")
            assert LagLimits.from_json(trigger.limits) == LagLimits()
            continue
        condition: Condition | LagCondition
        if isinstance(trigger, StreamTrigger):
            condition = condition_from_json(trigger.condition, CONDITIONS)
        else:
            condition = condition_from_json(trigger.condition, LAG_CONDITIONS)
            LagTarget(**trigger.target)
        check_meaning(next(expected), {"condition": type(condition).__name__, "fields": condition})
        limits = trigger.condition.get("limits", {})
        if limits:
            read = SoakLimits.from_json(limits) if "samples" in limits else LagLimits.from_json(limits)
            assert json.loads(json.dumps(read.to_json())) == limits
    assert next(expected, None) is None


def test_events_of_triggers() -> None:
    check_meaning(value("events.means.json"), [WaitOutcome.from_event(each) for each in value("events.json")])


def test_the_lag_event_that_an_asset_keeps() -> None:
    check_meaning(value("lag_incident.means.json"), [_Event.from_json(each) for each in value("lag_incident.json")])


def test_what_a_look_of_the_watch_hands_to_the_next() -> None:
    expected = value("look_memory.means.json")
    look = LookMemory.from_json(value("look_memory.json"))
    folder = FolderMemory.from_json(look.streams)
    check_meaning(expected["look"], look)
    check_meaning(expected["subjects"], [[kind.value, name, each] for (kind, name), each in folder.subjects.items()])
    check_meaning(expected["not_reached"], folder.not_reached)


def test_the_options_of_a_launcher() -> None:
    mounted, fetched = (vars(_options(arguments)) for arguments in value("launcher.json"))
    hash = json.loads(lines("log.jsonl")[6])["release"]["hash"]
    said = {"stream": "orders", "script": "orders.py", "arguments": ["kafka.example:9092", "orders"]}
    check_meaning({**said, "control": "file:///data/streams", "deployment": "orders-1-0-1a2b3c4d"}, mounted)
    check_meaning({"brokers": "", "storage": "", "release": ""}, mounted)
    check_meaning({**said, "control": "kafka://kafka_default/streams", "deployment": "orders-2-0-5e6f7a8b"}, fetched)
    check_meaning({"brokers": "kafka.example:9092", "storage": "s3a://bucket/streams", "release": hash}, fetched)
