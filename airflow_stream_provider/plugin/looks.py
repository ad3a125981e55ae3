"""Read for the page which streams a user may see, and what is known of each.

Each may hang, and runs in a thread (`control/bounded.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.cli.status import StreamStatus, read_status
from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.texts import plain
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.life import LifeEvent, life, with_gaps
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import judge_run
from airflow_stream_provider.plugin import shapes
from airflow_stream_provider.spec.shown import Shown, read_shown
from airflow_stream_provider.spec.stream import StreamSpec

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

# The records that are searched for the events of a stream's life, and the seconds of the curve in the list.
RECORDS, CURVE_SECONDS = 100, 3_600.0
# The answer of `OpenStream.details` about a stream that was never deployed, or that cannot be read.
NOTHING: Mapping[str, Any] = {"drivers": [], "queries": [], "events": [], "now": [], "releases": []}


@dataclass(frozen=True)
class Answer:
    """Whether something can be done now.

    :param word: the answer in a word or two.
    :param lines: what `airflow streams VERB --dry-run` prints, and the form shows.
    """

    word: str
    lines: tuple[str, ...]


class OpenStream:
    """All that the page reads of one stream, by one open control log: each read reads what is new.

    One thread at a time reads the log; others wait for it. After an error the next one opens it anew. Each method may
    hang, and raises StreamError where the stream cannot be read now.
    """

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self._lock = Lock()
        self._hook: StreamHook | None = None
        self._samples: list[LagSample] = []
        self._change: tuple[int, LifeEvent | None] = (0, None)

    @contextmanager
    def _opened(self) -> Iterator[StreamHook]:
        with self._lock:
            hook, self._hook = self._hook, None
            # The root is another one once its Airflow connection has changed.
            if hook is None or hook.root is not control_root(self.spec.control):
                hook = StreamHook.of(self.spec)
            yield hook
            self._hook = hook

    def row(self) -> dict[str, Any]:
        """Return the stream's line in the list; of one that cannot be read, with the reason and without its state."""
        at = time.time()
        try:
            with self._opened() as hook:
                status = read_status(self.spec, hook)
                self._keep(hook, status, at)
        except StreamError as error:
            status = StreamStatus(self.spec.name, problem=str(error))
        return {**shapes.row(status, self._samples, self._change[1], at), "read_at": at}

    def _keep(self, hook: StreamHook, status: StreamStatus, at: float) -> None:
        """Keep the samples of the last hour, and the last change of holder as of the log's last record."""
        known = self._samples[-1].at if self._samples else at - CURVE_SECONDS
        new = samples.since(hook.samples, known) if status.sample is not None and status.sample.at > known else ()
        self._samples = [each for each in (*self._samples, *new) if each.at > at - CURVE_SECONDS]
        log = hook.control_log
        if self._change[0] != log.state.seq:
            events = life(log.history(RECORDS), log.state)
            last = next((each for each in reversed(events) if each.what in shapes.CHANGES), None)
            self._change = (log.state.seq, last or self._change[1])

    def _recent(self) -> Snapshot | None:
        """Return the stream as it is now, with its last records; None: it was never deployed."""
        with self._opened() as hook:
            if not hook.exists():
                return None
            return replace(hook.observe(history=False), records=hook.control_log.history(RECORDS))

    def details(self) -> dict[str, Any]:
        """Return what the page says of the stream, but for its line in the list."""
        found = self._recent()
        if found is None:
            return {**NOTHING}
        drivers = shapes.drivers(found)
        return {
            "drivers": drivers,
            "queries": shapes.queries(
                found.holder_heartbeat, lost=judge_run(found, found.silent_seconds).health is Health.FAIL
            ),
            "events": shapes.events(reversed(life(found.records, found.state))),
            "now": shapes.now(found.state, drivers),
            "releases": shapes.releases(found.state),
        }

    def gaps(self) -> dict[int, float]:
        """Return the longest gap of a query by the number of the record that changed the holder, as far as known.

        The checkpoints are read beside the lock.
        """
        found = self._recent()
        told = with_gaps(found, life(found.records, found.state)) if found is not None else ()
        return {each.seq: max(each.gap_seconds.values()) for each in told if each.gap_seconds}

    def series(self, seconds: float) -> dict[str, Any]:
        """Return the time line.

        :param seconds: its length; 0: all that is kept.
        """
        now = time.time()
        since = now - seconds if seconds else 0.0
        with self._opened() as hook:
            if not hook.exists():
                return shapes.series((), (), 0.0, now)
            # All that is kept of it: a band may have begun before the line does.
            state, records = hook.control_log.refresh(), hook.control_log.history()
            seen = samples.since(hook.samples, since or -math.inf)
        return shapes.series(seen, life(records, state), since, now)

    def answer(self, operation: Operation = Operation.ROLL_BACK, confirmed_by: str = "") -> Answer:
        """Return whether something can be done now, and what is read again after it.

        By a log of its own: it waits for Kafka, and for storage.

        :param operation: one in which the YAML has no say: the API server has no YAML.
        :param confirmed_by: see `look_ahead`.
        """
        found = look_ahead(StreamHook.of(self.spec), operation, confirmed_by=confirmed_by)
        word = "No." if found.refused else "There is nothing to do." if found.done else "Yes."
        return Answer(word, tuple(plain(line) for line in found.lines))


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
