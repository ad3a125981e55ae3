"""Read for the page which streams a user may see, and what is known of each.

Each may hang, and runs in a thread (`control/bounded.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.texts import duration, plain
from airflow_stream_provider.links.stream import web_address
from airflow_stream_provider.monitoring.life import LifeEvent, life
from airflow_stream_provider.planning.foreseen import Foreseen
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.snapshot import Snapshot
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


def answer(spec: StreamSpec) -> Answer:
    """Return whether it can be rolled back now, and what is read again.

    :raises StreamError: what has to be asked does not answer.
    """
    found = look_ahead(StreamHook.of(spec), Operation.ROLL_BACK)
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
        return does or "has been asked for, and has not reported yet"
    said = f"{does or beat.phase}, last sign of life {duration(max(0.0, now - beat.at))} ago"
    return f"{said}: {plain(beat.message)}" if beat.message else said


def _others(found: Snapshot) -> list[Driver]:
    others = []
    for name in found.live_deployments():
        driver = found.candidate(name)
        beats = [beat for each, beat in found.heartbeats.items() if deployment_of(each) == name]
        beat = max(beats, key=lambda each: each.at, default=None)
        says = _says(beat, found.at, "stands by" if driver is not None else "")
        version = found.state.deployments[name].release.version
        others.append(Driver(driver.id if driver is not None else name, version, says))
    return others


FORM, WATCH = "__operate", "__watch"


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


def visible_streams(user: BaseUser, form: str | None = None) -> list[Visible]:
    """Return the streams whose form this user may read, by its id. Blocks: it reads Airflow's database.

    :param form: id of the one that is wanted; default: all.
    """
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
        found = SerializedDagModel.get_latest_serialized_dags(dag_ids=forms, session=session) if forms else []
        return visible_of({each.dag_id: each.data or {} for each in found}, files)


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
    fields = (task.get("__var", task) for task in tasks)
    text = next((each.get("doc_json") for each in fields if each.get("task_id") == "look"), None)
    return read_shown(text) if isinstance(text, str) else None
