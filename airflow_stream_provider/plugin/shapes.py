"""The JSON of the page's API: times in seconds since 1970, lengths in seconds, null = not known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from airflow_stream_provider.cli.status import Code, StreamStatus
from airflow_stream_provider.cli.tables import BAD_EVENTS, ODD_EVENTS, who, why
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryHealth, QueryProgress, QueryState
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import Deployment, RequestStage, StreamPhase, StreamState
from airflow_stream_provider.lifecycle.texts import duration, plain_within, redact_within
from airflow_stream_provider.links.stream import web_address
from airflow_stream_provider.monitoring.health import SILENT, phase_words
from airflow_stream_provider.monitoring.life import LifeEvent, What
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.planning.snapshot import Snapshot

T = TypeVar("T")

# Words for readers who have not read the concepts.
_WORDS = {
    StreamPhase.EMPTY.value: "never deployed",
    StreamPhase.DOWN.value: "down: nobody runs it",
    StreamPhase.FAILED.value: "failed: nobody runs it",
    StreamPhase.FINISHED.value: "finished by itself",
}
_TONES = {Code.WELL: "good", Code.WARN: "warn", Code.BAD: "bad", Code.UNKNOWN: "unknown"}
# The events after which another driver holds, or none.
CHANGES = (
    What.STARTED,
    What.ADOPTED,
    What.HANDED_OVER,
    What.ROLLED_BACK,
    What.REVIVED,
    What.TAKEN_BACK,
)
_STAGES = (RequestStage.REQUESTED, RequestStage.READY, RequestStage.RELEASED)
_ENDS = (What.STOPPED, What.RELEASED, What.FAILED, What.FINISHED, What.FENCED)
# A sign of life is newer than this where it is not shown how old it is: else every row would change every second.
SIGN_SECONDS = 10.0
NOT_REPORTED = "has been asked for, and has not reported yet"
# Points of a curve: more than a screen has room for.
POINTS = 1_000


def words(status: StreamStatus) -> str:
    """Return the state of a stream in words."""
    found = _WORDS.get(status.phase) or phase_words(status.phase, status.silent_seconds).replace("_", " ")
    if status.phase == StreamPhase.RUNNING and status.silent_seconds is not None:
        found += f", last sign of life {duration(status.silent_seconds)} ago"
    return found or "unknown"


def tone(status: StreamStatus) -> str:
    """Return `good`, `warn`, `bad`, `rest` or `unknown`; good is for what runs."""
    at_rest = status.code is Code.WELL and status.phase != StreamPhase.RUNNING
    return "rest" if at_rest else _TONES[status.code]


def row(status: StreamStatus, samples: Sequence[LagSample], change: LifeEvent | None, now: float) -> dict[str, Any]:
    """Return a stream's line in the list, without its id. It changes only when something that matters does.

    :param samples: of the last hour, oldest first.
    :param change: the last change of holder; None: none is known.
    """
    silent, sample = status.silent_seconds, status.sample
    brisk = status.phase == StreamPhase.RUNNING and silent is not None and silent < SIGN_SECONDS
    said = words(status).partition(", last sign of life")[0] if brisk else words(status)
    gaps = [query.gap_seconds for query in status.queries if query.gap_seconds is not None]
    open_incidents = sample.incidents.items() if sample else ()
    return _shown(
        {
            "name": status.stream,
            "words": said,
            "tone": tone(status),
            "release": status.version,
            "holder": status.holder,
            "since": status.since,
            "sign_at": None if brisk or silent is None else now - silent,
            "lag": {"records": sample.records, "seconds": sample.seconds, "at": sample.at} if sample else None,
            "spark": [[each.at, each.seconds, each.records] for each in samples],
            "queries": [_brief(query, lost=status.phase == SILENT) for query in status.queries],
            "incidents": [
                {"kind": kind.replace("_", " "), "id": state.incident.id, "since": state.incident.since}
                for kind, state in open_incidents
                if state.incident is not None
            ],
            "upgrade": change and {**_event(change), "gap": max(gaps, default=None)},
            "wanted": status.wanted,
            "problem": status.problem,
        }
    )


def unread(name: str, problem: str = "") -> dict[str, Any]:
    """Return the line of a stream of which nothing is known, or why not."""
    status = StreamStatus(name, problem=problem)
    return {**row(status, (), None, 0.0), **({} if problem else {"words": "not read yet"}), "read_at": None}


def _brief(query: QueryProgress, *, lost: bool) -> dict[str, Any]:
    if lost and not query.ended:
        return {"name": query.name, "words": "not known: its driver is silent", "tone": "unknown", "error": ""}
    health = query.health or QueryHealth(state="unknown")
    colour = {QueryState.RUNNING.value: "good", QueryState.LOST.value: "bad", "unknown": "unknown"}
    tone = "rest" if query.ended else colour.get(health.state, "warn" if health.seconds < 60 else "bad")
    said = "ended" if query.ended else "not known" if query.health is None else health.state
    return {"name": query.name, "words": said, "tone": tone, "error": health.error}


def queries(beat: Heartbeat | None, *, lost: bool) -> list[dict[str, Any]]:
    """Return all that is shown of the queries of a driver.

    :param lost: it gives no sign of life any more: how its queries are is not known.
    """
    return _shown([_query(each, lost=lost) for each in beat.queries] if beat else [])


def _query(found: QueryProgress, *, lost: bool) -> dict[str, Any]:
    health = found.health or QueryHealth()
    last = found.commits[-1] if found.commits else None
    committed = last.offsets if last else {}
    return {
        **_brief(found, lost=lost),
        "seconds": None if lost else health.seconds,
        "failures": health.failures,
        "cause": health.cause,
        "reads": health.reads,
        "note": health.note,
        "batch": found.batch,
        "committed_at": last.at if last else None,
        "batch_seconds": found.batch_seconds,
        "rows": found.input_rows,
        "rows_per_second": found.rows_per_second,
        "state_rows": found.state_rows,
        "state_bytes": found.state_bytes,
        "gap": found.gap_seconds,
        "sink": found.sink,
        "checkpoint": found.checkpoint,
        "batches": [vars(each) for each in found.batches],
        "offsets": [
            {"topic": topic, "partitions": len(offsets), "sum": sum(offsets.values())}
            for topic, offsets in sorted(committed.items())
        ],
    }


def _event(found: LifeEvent) -> dict[str, Any]:
    said = found.what
    colour = "bad" if said in BAD_EVENTS else "warn" if said in ODD_EVENTS else "good" if said in CHANGES else "rest"
    return {
        "seq": found.seq,
        "at": found.at,
        "what": said.value,
        "words": said.words,
        "tone": colour,
        "version": found.version,
        "driver": found.incarnation or found.deployment,
        "by": who(found),
        "reason": why(found),
        "gap": max(found.gap_seconds.values(), default=None),
        "free_seconds": found.free_seconds,
    }


def events(found: Iterable[LifeEvent]) -> list[dict[str, Any]]:
    """Return the events of a stream's life, in the given order."""
    return _shown([_event(each) for each in found])


def drivers(found: Snapshot) -> list[dict[str, Any]]:
    """Return the drivers that have not ended, the holder first."""
    return _shown(list(_drivers(found)))


def _drivers(found: Snapshot) -> Iterator[dict[str, Any]]:
    state = found.state
    names = [found.holding, *found.live_deployments()]
    for deployment in filter(None, names):
        holds, standby = found.holds(deployment), found.candidate(deployment)
        known = state.holder if holds else standby.id if standby else newest_driver(found, deployment)
        beat = found.heartbeats.get(known or "")
        yield {
            "id": known or deployment,
            "version": state.deployments[deployment].release.version,
            "role": "holder" if holds else "standby" if standby else "coming up",
            "says": _says(beat, announced=holds or standby is not None),
            "sign_at": beat.at if beat and beat.at else None,
            "ui": web_address(beat.ui_url) if beat else "",
            "host": beat.host if beat else "",
        }


def newest_driver(found: Snapshot, deployment: str) -> str:
    """Return the driver of a deployment that has given the last sign of life; empty: none has given any."""
    beats = {name: beat for name, beat in found.heartbeats.items() if deployment_of(name) == deployment}
    return max(beats, key=lambda name: beats[name].at, default="")


def _says(beat: Heartbeat | None, *, announced: bool) -> str:
    if beat is None:
        return "no sign of life is known" if announced else NOT_REPORTED
    return f"{beat.phase}: {beat.message}" if beat.message else beat.phase


def now(state: StreamState, up: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what goes on, step by step: from the wish that is not so yet to the stage of the open request.

    :param up: the drivers, see `drivers`.
    """
    request = state.open_request
    coming = [each for each in up if each["role"] != "holder"]
    wish = state.candidate or state.wish
    if wish is None or (request is None and not any(each["role"] == "coming up" for each in coming)):
        return []
    steps = [{"words": "wanted", "text": f"{wish.author} asks for it.", "at": wish.at, "done": True}]
    steps += [
        {
            "words": each["role"],
            "text": f"Release {each['version']}, driver {each['id']}: {each['says']}",
            "at": each["sign_at"],
            "done": each["role"] == "standby",
        }
        for each in coming
    ]
    reached = [] if request is None else _STAGES[: _STAGES.index(request.stage) + 1]
    steps += [
        {"words": stage.value, "text": stage.description, "at": None, "done": stage is not reached[-1]}
        for stage in reached
    ]
    return _shown(steps)


def releases(state: StreamState) -> list[dict[str, Any]]:
    """Return the releases that are known, each once, the one deployed last first."""
    found: dict[str, dict[str, Any]] = {}
    standing = {deployment_of(each.id) for each in state.incarnations.values() if not each.state.terminal}
    for each in reversed(list(state.deployments.values())):
        holds = deployment_of(state.holder or "") == each.id
        known = found.setdefault(each.release.hash, _release(each))
        known["holds"] |= holds
        known["stands_by"] |= each.id in standing and not holds
    # They hold no secrets by rule; a page is shown to more people than a command.
    return _shown(redact_within(list(found.values())))


def _release(found: Deployment) -> dict[str, Any]:
    release = found.release
    return {
        "hash": release.hash,
        "version": release.version,
        "deployed_at": found.declared_at,
        "application": release.application,
        "arguments": list(release.arguments),
        "conf": dict(release.conf),
        "py_files": list(release.py_files),
        "environment": dict(release.environment),
        "storage": release.storage,
        "holds": False,
        "stands_by": False,
    }


def series(samples: Sequence[LagSample], life: Sequence[LifeEvent], since: float, now: float) -> dict[str, Any]:
    """Return what the time line of a stream draws.

    :param samples: all that are kept, oldest first.
    :param life: its events, oldest first.
    :param since: where the line begins, in seconds since 1970; 0: with all that is kept.
    """
    kept = [now, *(each.at for each in samples[:1]), *(each.at for each in life if each.at is not None)]
    begin = since or min(kept)
    shown = [each for each in samples if each.at >= begin]
    step = max(1, -(-len(shown) // POINTS))
    return _shown(
        {
            "from": begin,
            "to": now,
            "samples": [_point(shown[at : at + step]) for at in range(0, len(shown), step)],
            "bands": [each for each in _bands(life) if each["to"] is None or each["to"] >= begin],
            "marks": events(each for each in life if each.what in (*CHANGES, *_ENDS) and (each.at or 0) >= begin),
            "incidents": _incidents(shown),
        }
    )


def _point(found: Sequence[LagSample]) -> dict[str, Any]:
    """Return the worst of neighbouring samples: a peak is seen however long the line is."""

    def worst(name: str) -> Any:
        return max((at for each in found if (at := getattr(each, name)) is not None), default=None)

    return {
        "at": found[-1].at,
        "seconds": worst("seconds"),
        "records": worst("records"),
        "phase": found[-1].phase,
        "batch_seconds": worst("longest_batch_seconds"),
        "state_bytes": worst("all_state_bytes"),
    }


def _bands(life: Sequence[LifeEvent]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for each in life:
        if each.what not in (*CHANGES, *_ENDS) or each.at is None:
            continue
        if found and found[-1]["to"] is None and (each.what in CHANGES or each.incarnation == found[-1]["driver"]):
            found[-1]["to"] = each.at
        if each.what in CHANGES:
            found.append({"from": each.at, "to": None, "version": each.version, "driver": each.incarnation})
    return found


def _incidents(samples: Sequence[LagSample]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    last: Mapping[str, str] = {}
    for sample in samples:
        last = sample.open_incidents
        for kind, state in sample.incidents.items():
            if state.incident is not None:
                began = {"kind": kind.replace("_", " "), "from": state.incident.since}
                found.setdefault(state.incident.id, began)["to"] = sample.at
    return [{**each, "to": None if id in last.values() else each["to"]} for id, each in found.items()]


def _shown(found: T) -> T:
    """Return it without characters that steer a terminal or turn the direction of a text."""
    return cast(T, plain_within(found))
