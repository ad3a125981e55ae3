"""What a control folder, a control topic and its root hold of one stream, as today's code writes it and reads it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest import mock

from airflow_stream_provider.control import ControlLog, FilesRoot
from airflow_stream_provider.control.owners import FileOwners, TopicOwners
from airflow_stream_provider.control.releases import store, verify
from airflow_stream_provider.control.topic import Message
from airflow_stream_provider.control.topic_index import INDEX, from_header
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka import control_root
from airflow_stream_provider.lag import topic_ids
from airflow_stream_provider.lag.limits import Health, Streaks
from airflow_stream_provider.lag.report import LagReport, QueryLag
from airflow_stream_provider.lifecycle import heartbeat as beats
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.saved_state import dump, load
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.causes import FolderMemory, Remembered
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind, IncidentState
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import Declared, note_of
from tests.support import format_story as story
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic

STREAM, WATCH, LOCATION = "orders", "streams__watch", story.CHECKPOINT
# What would be random, and is stored; the records have nonces of their own.
CHOSEN = uuid.UUID("0123456789abcdef0123456789abcdef")


def _choose() -> uuid.UUID:
    return CHOSEN


_chosen = mock.patch.object(uuid, "uuid4", _choose)


def filled(kind: type[Any], **chosen: Any) -> Any:
    """Return a dataclass with a value in each field; `chosen`: those that are no number, text or truth value."""
    values = {"int": 7, "float": 1.5, "bool": True}
    names = [(field.name, str(field.type).partition(" ")[0]) for field in fields(kind)]
    return kind(**{name: chosen.get(name, name if of == "str" else values.get(of)) for name, of in names})


_OFFSETS = {"orders-in": {"0": 9}}
_QUERY = filled(
    beats.QueryProgress,
    checkpoint=LOCATION,
    committed=(_OFFSETS,),
    commits=(beats.Commit(story.BEGAN, _OFFSETS), beats.Commit(story.BEGAN)),
    batches=(beats.Batch(7, story.BEGAN, 1.5, 7),),
    spark={"batchId": 7},
    health=filled(beats.QueryHealth, state="retrying", ranges=(filled(beats.OffsetRange),)),
)
_BEAT = {"queries": (_QUERY, beats.QueryProgress("totals")), "rehearsal": story.REHEARSED, "executor_hosts": ("host",)}
HEARTBEATS: Mapping[str, beats.Heartbeat] = {
    story.RESTARTED: filled(beats.Heartbeat, offsets_group=filled(beats.OffsetsGroupStatus), **_BEAT),
    story.NEXT: beats.Heartbeat(),
}
INCIDENT = Incident("orders-lag-20261122T204000Z", story.BEGAN, 1)
_TROUBLE = IncidentState(Streaks(bad=story.BEGAN), INCIDENT, {"mail:ann@example.com": INCIDENT}, "It is behind.")
SAMPLES = (
    filled(
        samples.LagSample,
        queries={"out": filled(samples.QuerySample, alarms=("COMMIT_AGE",))},
        health=Health.FAIL,
        incidents={"lag": _TROUBLE},
        counters={story.RESTARTED: 7},
        since={story.RESTARTED: story.BEGAN},
        moved={story.RESTARTED: story.BEGAN},
        earlier={"old": samples.QuerySample()},
        ill={"out": "retrying"},
    ),
    samples.LagSample(story.BEGAN, problem="Kafka does not answer."),
)
MEMORY = filled(
    FolderMemory,
    subjects={(IncidentKind.KAFKA, "kafka_default"): Remembered(_TROUBLE, story.BEGAN, story.BEGAN, ("orders",))},
    not_reached={"late": story.BEGAN},
    changed={"orders": "a-wish"},
    runs={"orders": ("watch__orders__1",)},
    version=1,
)
SPEC = StreamSpec.model_validate(
    {
        **{"name": STREAM, "application": "orders.py", "version": "3.0", "cluster": "spark_default"},
        **{"control": "file:///data/streams", "kafka": "kafka_default", "storage": "s3a://bucket/streams"},
        **{"storage_connection": "s3_default", "lag": {"max_records": 100}, "watch": {"schedule": "5m"}},
    }
)
_REPORT = LagReport(story.BEGAN, (QueryLag("out", id="b66422f9", topic_ids={"orders-in": "q0s1"}),))


def plant(files: Mapping[str, str], folder: Path) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def write_folder(folder: Path) -> Any:
    root = FilesRoot(folder.as_uri())
    root.make()
    log = ControlLog(root.store(STREAM, create=True), STREAM)
    for each in story.records():
        log.append(each, log.state.seq)
    for name, beat in HEARTBEATS.items():
        log.beat(name, beat)
    log.store.put_saved_state(dump(log.state))
    topic_ids.note(log.store, _REPORT)
    for sample in SAMPLES:
        samples.append(root.samples(STREAM), sample)
    root.note(STREAM, note_of(SPEC, WATCH))
    root.note(f".{WATCH}", json.dumps(MEMORY.kept(story.BEGAN).to_json()).encode())
    with _chosen:
        root.log_id(STREAM)
    FileOwners(folder).claim(LOCATION, STREAM)
    store(folder / STREAM, story.release("1.0"), story.FILES)
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def after_each(records: list[Record]) -> list[list[Any]]:
    """Return, after each record: number, kind, phase, holder, epoch, stage of the open request, illegal records."""
    found, state = [], StreamState()
    for each in records:
        state = fold([each], state)
        request = state.open_request
        stage = None if request is None else request.stage.value
        found.append([each.seq, each.kind, state.phase.value, state.holder, state.epoch, stage, state.illegal_count])
    return found


def read_folder(files: Any, folder: Path) -> Any:
    plant(files, folder)
    (folder / STREAM / "incoming").mkdir()
    root = FilesRoot(folder.as_uri())
    log = ControlLog(root.store(STREAM), STREAM)
    notes = root.noted()
    release = story.release("1.0")
    return {
        "after": after_each(log.records()),
        "state": log.refresh(),
        "heartbeats": {name: log.heartbeat(name) for name in log.store.heartbeats()},
        "declared": Declared.read(STREAM, SPEC.control, notes[STREAM]),
        "memory": FolderMemory.read(notes[f".{WATCH}"]),
        "id": root.log_id(STREAM),
        "claim": FileOwners(folder).owner(LOCATION),
        "topic ids": topic_ids.read(log.store),
        "samples": samples.read(root.samples(STREAM)),
        "release": verify(release.folder(folder / STREAM), release),
    }


def _sent(log: SimulatedLog) -> list[dict[str, Any]]:
    return [
        {
            "key": (each.key or b"").decode(),
            "headers": {name: said.decode() for name, said in each.headers.items()},
            "value": None if each.value is None else each.value.decode(),
        }
        for each in log.messages
    ]


def _topic_of(messages: Any) -> SimulatedTopic:
    log = SimulatedLog()
    log.id = CHOSEN.hex
    for each in messages:
        sent = None if each["value"] is None else each["value"].encode()
        log.append(each["key"].encode(), sent, {name: said.encode() for name, said in each["headers"].items()})
    return SimulatedTopic(log)


@_chosen
def write_topic(folder: Path) -> Any:
    brokers = SimulatedLog()
    brokers.id = CHOSEN.hex
    kept = TopicStore(SimulatedTopic(brokers), STREAM)
    log = ControlLog(kept, STREAM)
    for each in story.records()[:8]:
        log.append(each, log.state.seq)
    for name, beat in HEARTBEATS.items():
        log.beat(name, beat)
    kept.put_saved_state(dump(log.state))
    topic_ids.note(kept, _REPORT)
    for sample in SAMPLES:
        samples.append(kept, sample)
    kept.catch_up()
    kept.remove_heartbeat(story.NEXT)
    return _sent(brokers)


def read_topic(messages: Any, folder: Path) -> Any:
    topic = _topic_of(messages)
    kept = TopicStore(topic, STREAM)
    log = ControlLog(kept, STREAM)
    state = log.refresh()
    *_, (at, last) = ((at, each) for at, each in enumerate(messages) if INDEX in each["headers"])
    headers = {name: said.encode() for name, said in last["headers"].items()}
    return {
        "after": after_each(log.records()),
        "holder": state.holder,
        "heartbeats": {name: log.heartbeat(name) for name in kept.heartbeats()},
        "saved": load(kept.saved_state() or b""),
        "topic ids": topic_ids.read(kept),
        "samples": samples.read(kept),
        "index": from_header(Message(at, b"", b"", headers), CHOSEN.hex, STREAM),
    }


def _root_on(topic: SimulatedTopic) -> control_root.TopicRoot:
    root = control_root.TopicRoot("kafka://kafka_default/streams", "kafka_default", {}, "streams")
    # A topic in memory in the place of one that needs a broker.
    root._root = topic  # type: ignore[assignment]
    return root


@_chosen
def write_root(folder: Path) -> Any:
    brokers = SimulatedLog()
    root = _root_on(SimulatedTopic(brokers))
    root._write(control_root.MARKER, control_root._TEXT)
    root.note(STREAM, note_of(SPEC, WATCH))
    root.note(f".{WATCH}", json.dumps(MEMORY.kept(story.BEGAN).to_json()).encode())
    root.note("gone", b"{}")
    root.forget("gone")
    TopicOwners(lambda: SimulatedTopic(brokers)).claim(LOCATION, STREAM)
    return _sent(brokers)


def read_root(messages: Any, folder: Path) -> Any:
    topic = _topic_of(messages)
    root = _root_on(topic)
    notes = root.noted()
    return {
        "made": control_root.MARKER in root._read(),
        "declared": Declared.read(STREAM, SPEC.control, notes[STREAM]),
        "memory": FolderMemory.read(notes[f".{WATCH}"]),
        "noted": sorted(notes),
        "claim": TopicOwners(lambda: topic).owner(LOCATION),
    }
