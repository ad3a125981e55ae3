"""An example of each form that is stored or sent, as today's code writes it, and what today's code reads of one.

python -m tests.support.stored_forms    records the fixtures of a NEW format, once; see tests/fixtures/format-1
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from airflow_stream_provider.checkpoint.logs import kafka_offsets, read_offsets
from airflow_stream_provider.checkpoint.owner import claim, owner
from airflow_stream_provider.checkpoint.rewind import apply_rewind, plan_rewind
from airflow_stream_provider.clusters import driver_pod
from airflow_stream_provider.clusters.kubernetes_connection import SUBMISSION
from airflow_stream_provider.clusters.whose import Whose, deployment_named
from airflow_stream_provider.clusters.yarn_request import tags_of
from airflow_stream_provider.control import ControlLog, FilesRoot
from airflow_stream_provider.control.owners import FileOwners, TopicOwners
from airflow_stream_provider.control.releases import RUNTIME_ZIP, runtime_zip, store, verify
from airflow_stream_provider.control.topic import Message
from airflow_stream_provider.control.topic_index import INDEX, from_header
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.hooks.submit import job_of
from airflow_stream_provider.kafka import control_root
from airflow_stream_provider.lag import topic_ids
from airflow_stream_provider.lag.limits import Health, LagLimits, Streaks
from airflow_stream_provider.lag.report import LagReport, QueryLag
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle import heartbeat as beats
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.formats import FORMAT
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.saved_state import dump, load
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.causes import FolderMemory, Remembered
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind, IncidentState
from airflow_stream_provider.operators.watch import KnownRoots
from airflow_stream_provider.planning import lag_conditions as lags
from airflow_stream_provider.planning.comparison import Compared, Comparison, Pace, QueryComparison
from airflow_stream_provider.planning.conditions import CONDITIONS
from airflow_stream_provider.planning.judgement import Answered
from airflow_stream_provider.planning.pursue import result
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.soak import SoakLimits
from airflow_stream_provider.planning.waits import Ended, WaitCondition, WaitOutcome, condition_from_json
from airflow_stream_provider.releases.place import manifest_of
from airflow_stream_provider.runtime.launcher import MANIFEST, _options
from airflow_stream_provider.runtime.lease_watchdog import HALT_CODE
from airflow_stream_provider.spec.shown import as_shown, read_shown
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import Declared, note_of
from airflow_stream_provider.triggers.lag import LagTrigger
from airflow_stream_provider.triggers.lag_event import STATE, LagEventTrigger, _Event
from airflow_stream_provider.triggers.stream import ApprovalTrigger, StreamTrigger
from devstack import checkpoint_trees as trees
from tests.support import format_story as story
from tests.support.simulated_topic import SimulatedLog, SimulatedTopic

FIXTURES = Path(__file__).parents[1] / "fixtures"
FORMAT_1 = FIXTURES / "format-1"
WHAT_TO_DO = "Formats are frozen: drivers of months ago read this. See tests/fixtures/format-1/README.md."
STREAM, WATCH, LOCATION = "orders", "streams__watch", story.CHECKPOINT
# What would be random, and is stored; the records have nonces of their own.
_CHOSEN = uuid.UUID("0123456789abcdef0123456789abcdef")


def _choose() -> uuid.UUID:
    return _CHOSEN


_chosen = mock.patch.object(uuid, "uuid4", _choose)


def plain(found: Any) -> Any:
    """Return a value of this package as JSON has it; of a record who wrote it, and when."""
    if isinstance(found, Record):
        return {name: getattr(found, name) for name in ("kind", "by", "at", "nonce", "seq", "previous")}
    if isinstance(found, Enum):
        return found.value
    if is_dataclass(found):
        return {field.name: plain(getattr(found, field.name)) for field in fields(found)}
    if isinstance(found, StreamSpec):
        return found.model_dump(mode="json", exclude_unset=True)
    if isinstance(found, Mapping):
        return {"/".join(map(str, key)) if isinstance(key, tuple) else str(key): plain(v) for key, v in found.items()}
    return [plain(each) for each in found] if isinstance(found, (list, tuple)) else found


# -- a control folder and a control topic ------------------------------------------------------------------------------


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
_INCIDENT = Incident("orders-lag-20261122T204000Z", story.BEGAN, 1)
_TROUBLE = IncidentState(Streaks(bad=story.BEGAN), _INCIDENT, {"mail:ann@example.com": _INCIDENT}, "It is behind.")
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


def _write_folder(folder: Path) -> Any:
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


def _read_folder(files: Any, folder: Path) -> Any:
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
    log.id = _CHOSEN.hex
    for each in messages:
        sent = None if each["value"] is None else each["value"].encode()
        log.append(each["key"].encode(), sent, {name: said.encode() for name, said in each["headers"].items()})
    return SimulatedTopic(log)


@_chosen
def _write_topic(folder: Path) -> Any:
    brokers = SimulatedLog()
    brokers.id = _CHOSEN.hex
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


def _read_topic(messages: Any, folder: Path) -> Any:
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
        "index": from_header(Message(at, b"", b"", headers), _CHOSEN.hex, STREAM),
    }


def _root_on(topic: SimulatedTopic) -> control_root.TopicRoot:
    root = control_root.TopicRoot("kafka://kafka_default/streams", "kafka_default", {}, "streams")
    # A topic in memory in the place of one that needs a broker.
    root._root = topic  # type: ignore[assignment]
    return root


@_chosen
def _write_root(folder: Path) -> Any:
    brokers = SimulatedLog()
    root = _root_on(SimulatedTopic(brokers))
    root._write(control_root.MARKER, control_root._TEXT)
    root.note(STREAM, note_of(SPEC, WATCH))
    root.note(f".{WATCH}", json.dumps(MEMORY.kept(story.BEGAN).to_json()).encode())
    root.note("gone", b"{}")
    root.forget("gone")
    TopicOwners(lambda: SimulatedTopic(brokers)).claim(LOCATION, STREAM)
    return _sent(brokers)


def _read_root(messages: Any, folder: Path) -> Any:
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


# -- beside a checkpoint, and what a driver is started with ------------------------------------------------------------


def _write_checkpoint(folder: Path) -> Any:
    root = trees.new(folder / "out")
    for number in range(3):
        trees.plan(root, number, trees.kafka(orders={0: 10 * number}))
        trees.commit(root, number)
    apply_rewind(plan_rewind(root, {"orders": {0: 5}}, deployment_of(story.UPGRADE), 2))
    claim(root, STREAM, SPEC.control, _CHOSEN.hex)
    return {name: (folder / name).read_text() for name in ("out.owner", "out/offsets/2")}


def _read_checkpoint(files: Any, folder: Path) -> Any:
    plant(files, folder)
    found = read_offsets(folder / "out" / "offsets" / "2")
    offsets = [kafka_offsets(each) for each in found.sources.values()]
    return {"owner": owner(folder / "out"), "rewound": found.rewound, "offsets": offsets}


def _write_driver(folder: Path) -> Any:
    one, two = story.release("1.0"), story.release("2.0", storage="s3a://bucket/streams")
    control = FilesRoot(SPEC.control)
    brokers: Any = SimpleNamespace(url="kafka://kafka_default/streams", driver_arguments=lambda: ("--brokers", "k:1"))
    there = f"{two.storage}/{STREAM}/releases/{two.hash}"
    jobs = (
        job_of(control, STREAM, Path("/data/streams/orders"), deployment_of(story.FOLLOWER), one, "/data/r", log="1a"),
        job_of(brokers, STREAM, None, deployment_of(story.UPGRADE), two, there, log="2b"),
    )
    return {
        "jobs": [
            {
                "app_name": job.app_name,
                "arguments": list(job.arguments),
                "files": [job.launcher, *job.files],
                "conf": job.properties(),
                "tags on YARN": tags_of(job),
                "label of a pod": driver_pod.driver_label(job.deployment, job.log),
            }
            for job in jobs
        ],
        "names": {
            "pod": driver_pod.pod_name(driver_pod.driver_label(jobs[0].deployment, jobs[0].log)),
            "finalizer": driver_pod.FINALIZER,
            "label": driver_pod.DRIVER_LABEL,
            "annotations": [getattr(driver_pod, f"{name}_ANNOTATION") for name in ("STREAM", "DEPLOYMENT", "LOG")],
            "variable": SUBMISSION,
        },
        "exit code of a halt": HALT_CODE,
        MANIFEST: manifest_of(two, story.FILES).decode(),
    }


def _read_driver(said: Any, folder: Path) -> Any:
    found = []
    for job, log in zip(said["jobs"], ("1a", "2b"), strict=True):
        deployment = deployment_named(job["app_name"], STREAM, log)
        whose = Whose(deployment, log, tuple(job["arguments"]))
        command = ["launcher.py", f"-Dspark.airflow.stream.log={log}", *job["arguments"]]
        found.append({"options": vars(_options(job["arguments"])), "runs": whose.runs(command)})
    return {"jobs": found, "pod": driver_pod.label_of(said["names"]["pod"])}


# -- what Airflow keeps ------------------------------------------------------------------------------------------------

_LIMITS = LagLimits(100, 60.0).to_json()
_SOAK = SoakLimits(LagLimits(max_seconds=60.0)).to_json()
# A value for each field of a condition, by its name, or by that of the condition before it.
_VALUES: Mapping[str, Any] = {
    **{"deployment": deployment_of(story.NEXT), "holding": deployment_of(story.LAST), "request": "r-last"},
    **{"incarnation": story.RESTARTED, "watched": (story.RESTARTED, story.NEXT), "queries": ("out",)},
    **{"lease": 30.0, "pause": 600.0, "seconds": 60.0, "expires": story.BEGAN, "until": story.BEGAN},
    **{"grace_until": story.BEGAN, "counters": {story.RESTARTED: 7}, "job": "driver-1", "run": "airflow:orders"},
    **{"phases": ("running",), "version": "3.0", "unknown": "fail", "limits": _LIMITS, "Soaked.limits": _SOAK},
}
_ALL: tuple[type[WaitCondition[Any, Any]], ...] = (*CONDITIONS, Answered, *lags.LAG_CONDITIONS)


def _condition(kind: type[WaitCondition[Any, Any]]) -> dict[str, Any]:
    names = [field.name for field in fields(kind)]
    made: Any = kind(**{name: _VALUES.get(f"{kind.__name__}.{name}", _VALUES.get(name)) for name in names})
    said: dict[str, Any] = made.to_json()
    return said


def _write_triggers(folder: Path) -> Any:
    address = {"stream": STREAM, "control": SPEC.control, "cluster": "spark_default", "kafka": "kafka_default"}
    target, at = LagTarget("kafka_default", STREAM, SPEC.control).to_json(), {"deadline": story.BEGAN}
    answered: Any = {"address": address, "condition": _condition(Answered), **at}
    found: list[Any] = [StreamTrigger(address, _condition(each), **at) for each in CONDITIONS]
    found.append(ApprovalTrigger(ti_id=str(_CHOSEN), options=["Approve", "Reject"], **answered))
    found += [LagTrigger(target, _condition(each), 30.0, **at, partitions=True) for each in lags.LAG_CONDITIONS]
    return [each.serialize() for each in (*found, LagEventTrigger(target, _LIMITS, 60.0, 30.0))]


def _read_triggers(said: Any, folder: Path) -> Any:
    classes = {each.__name__: each for each in (StreamTrigger, ApprovalTrigger, LagTrigger, LagEventTrigger)}
    found = []
    for path, arguments in said:
        made: Any = classes[path.rpartition(".")[2]](**arguments)
        assert made.serialize()[0] == path, "Airflow imports it by its path"
        held = getattr(made, "condition", None)
        condition = None if held is None else condition_from_json(held, _ALL)
        limits = arguments.get("limits") or (held or {}).get("limits")
        judged: Any = SoakLimits if "samples" in (limits or {}) else LagLimits
        about = LagTarget(**made.target) if "target" in arguments else None
        found.append([type(condition).__name__, condition, about, judged.from_json(limits) if limits else None])
    return found


def _write_events(folder: Path) -> Any:
    more: Any = {"evidence": {"driver": "killed"}, "deadline": story.BEGAN, "counters": {story.NEXT: 7}}
    return [WaitOutcome(each, story.NEXT, "a reason", **more).to_event() for each in Ended]


def _write_xcom(folder: Path) -> Any:
    pace = Pace(((6, 7, 1.5),), False, 5.0, 3, 400, 0, 6, True)
    compared = QueryComparison(Compared.INCONCLUSIVE, "It is slower.", pace, pace, 1.5)
    records = [each.numbered(number) for number, each in enumerate(story.records(), 1)]
    handed = {}
    for name, seq in {"upgrade": 12, "take": 17, "adopt": 8, "stop": 48}.items():
        state = fold(records[:seq])
        handed[name] = result(Snapshot(STREAM, story.BEGAN, state, tuple(records[:seq])), state.wishes[name])
    return {"release": story.release("2.0").to_json(), "judge": Comparison({"out": compared}).to_json(), **handed}


def _write_variable(folder: Path) -> Any:
    kept: dict[str, Any] = {}
    with mock.patch("airflow_stream_provider.operators.watch.Variable") as variable:
        variable.get.return_value = None
        variable.set.side_effect = lambda key, value, **_: kept.update({key: value})
        roots = KnownRoots(WATCH)
        roots.add({SPEC.control})
        roots.save(MEMORY.kept(story.BEGAN).to_json())
    return kept


def _read_variable(said: Any, folder: Path) -> Any:
    with mock.patch("airflow_stream_provider.operators.watch.Variable") as variable:
        variable.get.side_effect = lambda key, **_: said[key]
        found = KnownRoots(WATCH)
    return {"roots": sorted(found.urls), "memory": FolderMemory.read(found.memory)}


# -- all of them -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """A form.

    :param rows: the first words of the rows of docs/compatibility.md that it stands for.
    :param write: returns what today's code writes, as JSON, given an empty folder.
    :param read: returns what today's code reads of what was recorded, given an empty folder.
    """

    rows: tuple[str, ...]
    write: Callable[[Path], Any]
    read: Callable[[Any, Path], Any]


_ROOT, _LOG = ("control root;", "claim"), ("records", "heartbeats", "saved state", "ids of topics", "samples")
FORMS: Mapping[str, Form] = {
    "control_folder": Form((*_LOG, *_ROOT, "id of a log", "releases"), _write_folder, _read_folder),
    "control_topic": Form((*_LOG, "headers of a topic"), _write_topic, _read_topic),
    "root_topic": Form(_ROOT, _write_root, _read_root),
    "checkpoint": Form(("owner of a checkpoint", "mark of a rewind"), _write_checkpoint, _read_checkpoint),
    "driver": Form(("a driver's command line", "releases"), _write_driver, _read_driver),
    "triggers": Form(("triggers",), _write_triggers, _read_triggers),
    "events": Form(("triggers",), _write_events, lambda said, _: [WaitOutcome.from_event(each) for each in said]),
    "xcom": Form(("what tasks hand",), _write_xcom, lambda said, _: Release.from_json(said["release"])),
    "variable": Form(("control roots of a watch",), _write_variable, _read_variable),
    "lag_event": Form(
        ("kept lag event",),
        lambda _: {STATE: _Event("open", _INCIDENT, sent=True).to_json()},
        lambda said, _: _Event.from_json(said[STATE]),
    ),
    "shown": Form(("what the page shows",), lambda _: as_shown(SPEC), lambda said, _: read_shown(said)),
}


def written(name: str) -> Any:
    """Return what today's code writes of a form, with what would be random chosen."""
    with tempfile.TemporaryDirectory() as folder:
        return json.loads(json.dumps(FORMS[name].write(Path(folder))))


def read(name: str, said: Any) -> Any:
    """Return what today's code reads of a form, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        return json.loads(json.dumps(plain(FORMS[name].read(said, Path(folder)))))


def recorded(name: str, what: str = "") -> Any:
    """Return the recorded example of a form of format 1; with ``.means`` the meaning that its readers of then found."""
    return json.loads((FORMAT_1 / f"{name}{what}.json").read_text())


def check_meaning(expected: Any, found: Any, at: str = "") -> None:
    """Check that something still means what it meant; what a later version also tells of it is left out."""
    if isinstance(expected, dict) and isinstance(found, dict):
        assert set(expected) <= set(found), f"{at}: {sorted(set(expected) - set(found))} is missing. {WHAT_TO_DO}"
        for name, each in expected.items():
            check_meaning(each, found[name], f"{at}.{name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            check_meaning(one, other, f"{at}[{number}]")
    else:
        same = expected == found and type(expected) is type(found)
        assert same, f"{at} meant {expected!r:.200} and is read as {found!r:.200}. {WHAT_TO_DO}"


def _text(value: Any) -> str:
    """Return JSON with a line for each item."""
    if isinstance(value, dict):
        items = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in value.items())
        return "{\n" + ",\n".join(items) + "\n}\n"
    return "[\n" + ",\n".join(map(json.dumps, value)) + "\n]\n" if isinstance(value, list) else json.dumps(value) + "\n"


def record(folder: Path) -> None:
    """Record all forms; never again into a folder of a format that was recorded.

    :raises FileExistsError: there is one.
    """
    folder.mkdir(parents=True)
    for name in FORMS:
        said = written(name)
        for what, value in (("", said), (".means", read(name, said))):
            (folder / f"{name}{what}.json").write_text(_text(value))
    (folder / RUNTIME_ZIP).write_bytes(runtime_zip())


if __name__ == "__main__":
    record(FIXTURES / f"format-{FORMAT}")
