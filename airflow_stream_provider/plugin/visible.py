"""Which streams a user may see, and what is known of each: by the DAGs that he may read, as Airflow has stored them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.spec.shown import Shown, read_shown

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

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
