"""Read for the page which streams a user may see, and what is known of each.

Each may hang, and runs in a thread (`control/bounded.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.texts import duration, plain
from airflow_stream_provider.links.stream import web_address
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.life import LifeEvent, life, with_gaps
from airflow_stream_provider.planning.foreseen import Foreseen
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.plugin import shapes
from airflow_stream_provider.spec.shown import Shown, read_shown
from airflow_stream_provider.spec.stream import StreamSpec

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

# The events of a stream's life, and the records that are searched for them: half of those of an upgrade are no event.
EVENTS, RECORDS = 15, 100


@dataclass(frozen=True)
class Answer:
    """Whether a stream can be rolled back now.

    :param word: the answer in a word or two.
    :param lines: what `airflow streams roll-back --dry-run` prints, and the form shows.
    """

    word: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Driver:
    """A driver that does not hold.

    :param id: of the driver; of its deployment while it has not announced itself.
    :param says: what it does.
    """

    id: str
    version: str
    says: str


@dataclass(frozen=True)
class Life:
    """The other drivers, and the last events.

    :param events: the last ones, the newest first.
    :param ui: address of the holder's Spark UI; empty: not known.
    """

    others: tuple[Driver, ...] = ()
    events: tuple[LifeEvent, ...] = ()
    ui: str = ""


def answer(spec: StreamSpec, operation: Operation = Operation.ROLL_BACK, confirmed_by: str = "") -> Answer:
    """Return whether something can be done now, and what is read again after it.

    :param operation: one in which the YAML has no say: the API server has no YAML.
    :param confirmed_by: see `look_ahead`.
    :raises StreamError: what has to be asked does not answer.
    """
    found = look_ahead(StreamHook.of(spec), operation, confirmed_by=confirmed_by)
    return Answer(_word(found), tuple(plain(line) for line in found.lines))


def _word(found: Foreseen) -> str:
    return "No." if found.refused else "There is nothing to do." if found.done else "Yes."


def look_at_life(spec: StreamSpec) -> Life:
    """Return the drivers that stand by or come up, and the last events.

    :raises StreamError: the control log cannot be read now.
    """
    hook = StreamHook.of(spec)
    if not hook.exists():
        return Life()
    # Without its whole history, of up to 2,000 records: that is read for the answer already.
    found = hook.observe(history=False)
    events = reversed(life(hook.control_log.history(RECORDS), found.state)[-EVENTS:])
    beat = found.holder_heartbeat
    return Life(tuple(_others(found)), tuple(events), web_address(beat.ui_url) if beat else "")


def _says(beat: Heartbeat | None, now: float, does: str) -> str:
    """Return what a driver does, by the log or else by its own word, and how old its last sign of life is."""
    if beat is None:
        return does or shapes.NOT_REPORTED
    said = f"{does or beat.phase}, last sign of life {duration(max(0.0, now - beat.at))} ago"
    return f"{said}: {plain(beat.message)}" if beat.message else said


def _others(found: Snapshot) -> list[Driver]:
    others = []
    for name in found.live_deployments():
        driver = found.candidate(name)
        beat = found.heartbeats.get(shapes.newest_driver(found, name))
        says = _says(beat, found.at, "stands by" if driver is not None else "")
        version = found.state.deployments[name].release.version
        others.append(Driver(driver.id if driver is not None else name, version, says))
    return others


# An open hook is forgotten after so many seconds in which no page has asked for its stream.
OPEN_SECONDS = 60.0


@dataclass
class _Open:
    """The open hook of a stream: of its control log, each read reads what is new."""

    hook: StreamHook
    lock: Lock = field(default_factory=Lock)
    used: float = 0.0


_open: dict[tuple[str | None, ...], _Open] = {}


@contextmanager
def _opened(spec: StreamSpec) -> Iterator[StreamHook]:
    """Lend the open hook of a stream to one reader at a time. After an error the next reader opens it anew."""
    now = time.monotonic()
    for key, each in list(_open.items()):
        if each.used < now - OPEN_SECONDS:
            _open.pop(key, None)
    key = (spec.name, spec.control, spec.cluster, spec.kafka, spec.storage, spec.storage_connection)
    kept = _open.setdefault(key, _Open(StreamHook.of(spec)))
    kept.used = now
    with kept.lock:
        try:
            yield kept.hook
        except BaseException:
            _open.pop(key, None)
            raise


def _recent(spec: StreamSpec) -> tuple[Snapshot, tuple[Record, ...]] | None:
    """Return a stream as it is now, with its last records; None: it was never deployed."""
    with _opened(spec) as hook:
        if not hook.exists():
            return None
        return hook.observe(history=False), hook.control_log.history(RECORDS)


# The answer of `details` about a stream that was never deployed, or that cannot be read.
NOTHING: Mapping[str, Any] = {"drivers": [], "queries": [], "events": [], "now": [], "releases": []}


def details(spec: StreamSpec) -> dict[str, Any]:
    """Return what the page says of one stream, but for its line in the list.

    :raises StreamError: the control log cannot be read now.
    """
    recent = _recent(spec)
    if recent is None:
        return {**NOTHING}
    found, records = recent
    drivers = shapes.drivers(found)
    return {
        "drivers": drivers,
        "queries": shapes.queries(found.holder_heartbeat),
        "events": shapes.events(reversed(life(records, found.state))),
        "now": shapes.now(found.state, drivers),
        "releases": shapes.releases(found.state),
    }


def gaps_of(spec: StreamSpec) -> dict[int, float]:
    """Return the longest gap of a query by the number of the record that changed the holder, as far as it is known.

    :raises StreamError: the control log cannot be read now.
    """
    recent = _recent(spec)
    if recent is None:
        return {}
    found, records = recent
    told = with_gaps(replace(found, records=records), life(records, found.state))
    return {each.seq: max(each.gap_seconds.values()) for each in told if each.gap_seconds}


def series_of(spec: StreamSpec, seconds: float) -> dict[str, Any]:
    """Return the time line of a stream.

    :param seconds: its length; 0: all that is kept.
    :raises StreamError: the control log cannot be read now.
    """
    now = time.time()
    since = now - seconds if seconds else 0.0
    with _opened(spec) as hook:
        if not hook.exists():
            return shapes.series((), (), 0.0, now)
        # All that is kept of it: a band may have begun before the line does.
        state, records = hook.control_log.refresh(), hook.control_log.history()
        seen = samples.since(hook.samples, since or -math.inf)
    return shapes.series(seen, life(records, state), since, now)


FORM, WATCH, LOOK = "__operate", "__watch", "look"


@dataclass(frozen=True)
class Visible:
    """A stream that a user may see.

    :param form: id of its DAG ``NAME__operate``, by which it goes here: two streams may have one name.
    :param watches: ids of the DAGs that watch it, of those that he may read.
    """

    form: str
    stream: Shown
    watches: tuple[str, ...] = ()

    @property
    def upgrade(self) -> str:
        """Id of its DAG ``NAME__upgrade``."""
        return f"{self.form.removesuffix(FORM)}__upgrade"


# By user and form: what he may see, for so many seconds. A page asks every two seconds, and there may be many pages.
SEEN_SECONDS = 5.0
_seen: dict[tuple[str, str | None], tuple[float, list[Visible]]] = {}
# Serialized forms by id, with the hash by which each is known to be the same: it is some 25 kB in the database.
_forms: dict[str, tuple[str, Mapping[str, Any]]] = {}


def visible_streams(user: BaseUser, form: str | None = None) -> list[Visible]:
    """Return the streams whose form this user may read, by its id. Blocks: it reads Airflow's database.

    A right that is taken away ends some seconds later.

    :param form: id of the one that is wanted; default: all.
    """
    key, now = (user.get_id(), form), time.monotonic()
    until, found = _seen.get(key, (0.0, []))
    if now >= until:
        found = _visible_now(user, form)
        for old in [each for each, (end, _) in list(_seen.items()) if end < now]:
            _seen.pop(old, None)
        _seen[key] = (now + SEEN_SECONDS, found)
    return found


def _visible_now(user: BaseUser, form: str | None) -> list[Visible]:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.models.dag import DagModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.session import create_session
    from sqlalchemy import or_, select

    ours = or_(*(DagModel.dag_id.endswith(end, autoescape=True) for end in (FORM, WATCH)))
    rows = select(DagModel.dag_id, DagModel.bundle_name, DagModel.relative_fileloc).where(
        ours, DagModel.is_stale.is_(False)
    )
    with create_session() as session:
        allowed = get_auth_manager().get_authorized_dag_ids(user=user, method="GET", session=session)
        files = {dag: (bundle, file) for dag, bundle, file in session.execute(rows) if dag in allowed}
        forms = [dag for dag in files if dag.endswith(FORM) and form in (None, dag)]
        stored = select(SerializedDagModel.dag_id, SerializedDagModel.dag_hash).order_by(SerializedDagModel.created_at)
        found = session.execute(stored.where(SerializedDagModel.dag_id.in_(forms))) if forms else ()
        hashes = {dag: hash for dag, hash in found}  # noqa: C416 - its `keys` are those of the columns
        new = [dag for dag, hash in hashes.items() if _forms.get(dag, ("",))[0] != hash]
        for each in SerializedDagModel.get_latest_serialized_dags(dag_ids=new, session=session) if new else ():
            _forms[each.dag_id] = (each.dag_hash, _looks_of(each.data or {}))
    return visible_of({dag: _forms[dag][1] for dag in hashes if dag in _forms}, files)


def _looks_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a serialized form with the task alone that says what is shown."""
    tasks = data.get("dag", {}).get("tasks", ())
    return {"dag": {"tasks": [task for task in tasks if _fields(task).get("task_id") == LOOK]}}


def may_trigger(user: BaseUser, form: str) -> bool:
    """Return whether this user may trigger the form of a stream."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails

    details = DagDetails(id=form)
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user
    )


def visible_of(forms: Mapping[str, Mapping[str, Any]], files: Mapping[str, object]) -> list[Visible]:
    """Return the streams of serialized forms.

    :param forms: by id of the DAG. One that is none of ours is left out.
    :param files: the file of each DAG that may be seen, by its id: a watch is of the streams of its own file.
    """
    found = []
    for dag_id, data in sorted(forms.items()):
        stream = _shown(data.get("dag", {}).get("tasks", ()))
        if stream is not None:
            watches = sorted(dag for dag, file in files.items() if dag.endswith(WATCH) and file == files.get(dag_id))
            found.append(Visible(dag_id, stream, tuple(watches)))
    return found


def _shown(tasks: Iterable[Mapping[str, Any]]) -> Shown | None:
    text = next((_fields(task).get("doc_json") for task in tasks if _fields(task).get("task_id") == LOOK), None)
    return read_shown(text) if isinstance(text, str) else None


def _fields(task: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = task.get("__var", task)
    return found
