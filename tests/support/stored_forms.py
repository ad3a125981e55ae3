"""An example of each form that is stored or sent, as today's code writes it, and what today's code reads of one.

python -m tests.support.stored_forms    records the fixtures of a NEW format, once; see tests/fixtures/format-1
"""

from __future__ import annotations

import json
import tempfile
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
from airflow_stream_provider.control import FilesRoot
from airflow_stream_provider.control.releases import RUNTIME_ZIP, runtime_zip
from airflow_stream_provider.hooks.submit import job_of
from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.formats import FORMAT
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.monitoring.causes import FolderMemory
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
from airflow_stream_provider.triggers.lag import LagTrigger
from airflow_stream_provider.triggers.lag_event import STATE, LagEventTrigger, _Event
from airflow_stream_provider.triggers.stream import ApprovalTrigger, StreamTrigger
from devstack import checkpoint_trees as trees
from tests.support import format_story as story
from tests.support.stored_control import (
    CHOSEN,
    INCIDENT,
    MEMORY,
    SPEC,
    STREAM,
    WATCH,
    plant,
    read_folder,
    read_root,
    read_topic,
    write_folder,
    write_root,
    write_topic,
)

FIXTURES = Path(__file__).parents[1] / "fixtures"
FORMAT_1 = FIXTURES / "format-1"
WHAT_TO_DO = "Formats are frozen: drivers of months ago read this. See tests/fixtures/format-1/README.md."


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


# -- beside a checkpoint, and what a driver is started with ------------------------------------------------------------


def _write_checkpoint(folder: Path) -> Any:
    root = trees.new(folder / "out")
    for number in range(3):
        trees.plan(root, number, trees.kafka(orders={0: 10 * number}))
        trees.commit(root, number)
    apply_rewind(plan_rewind(root, {"orders": {0: 5}}, deployment_of(story.UPGRADE), 2))
    claim(root, STREAM, SPEC.control, CHOSEN.hex)
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
    found.append(ApprovalTrigger(ti_id=str(CHOSEN), options=["Approve", "Reject"], **answered))
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
        variable.keys.return_value = []
        variable.set.side_effect = lambda key, value, **_: kept.update({key: value})
        roots = KnownRoots(WATCH)
        roots.add({SPEC.control})
        roots.save(MEMORY.kept(story.BEGAN).to_json())
    return kept


def _read_variable(said: Any, folder: Path) -> Any:
    with mock.patch("airflow_stream_provider.operators.watch.Variable") as variable:
        variable.get.side_effect = lambda key, **_: json.dumps(said[key])
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
    "control_folder": Form((*_LOG, *_ROOT, "id of a log", "releases"), write_folder, read_folder),
    "control_topic": Form((*_LOG, "headers of a topic"), write_topic, read_topic),
    "root_topic": Form(_ROOT, write_root, read_root),
    "checkpoint": Form(("owner of a checkpoint", "mark of a rewind"), _write_checkpoint, _read_checkpoint),
    "driver": Form(("a driver's command line", "releases"), _write_driver, _read_driver),
    "triggers": Form(("triggers",), _write_triggers, _read_triggers),
    "events": Form(("triggers",), _write_events, lambda said, _: [WaitOutcome.from_event(each) for each in said]),
    "xcom": Form(("what tasks hand",), _write_xcom, lambda said, _: Release.from_json(said["release"])),
    "variable": Form(("control roots of a watch",), _write_variable, _read_variable),
    "lag_event": Form(
        ("kept lag event",),
        lambda _: {STATE: _Event("open", INCIDENT, sent=True).to_json()},
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
