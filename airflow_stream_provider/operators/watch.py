"""Watch all streams of a folder: one look at each, and the streams that have to be brought back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException
from typing_extensions import override

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec


class WatchStreamsOperator(BaseOperator):
    """Look once at every stream of a folder that is due, tell people of incidents, and say which streams to bring back.

    A look measures lag and health, sends the gauges, adds a sample to those that the command line shows, and tells
    people of every incident when it opens and when it is over, with the same id; for a place that many streams need
    also when more of them go down. It brings nothing back itself: it returns the arguments of TriggerDagRunOperator for
    the runs of ``NAME__revive`` that are needed now, at most 100. Streams with a queued or running one are left out;
    but beside one that runs, and may wait for a cluster, another is triggered for steps that need no cluster.

    With `upgrade.on_change` it also returns those for a run of ``NAME__upgrade``, once two looks have found the same
    change of the YAML or of a file, and no upgrade is queued or runs.

    The streams are read when the task runs. One whose YAML cannot be used is looked at by its last good declaration,
    which the watch keeps in XCom; so is one that no file describes any more, until it was stopped, has finished, or
    another watch looks at it, or people know that its control log has gone, too. When the look itself fails, everybody
    is told whom a stream of the last good look names, once, and once that it works again.

    Skipped when another look waits already, but never twice in a row; when it was cleared, as another look has been
    since; and in a backfill.

    :param streams: the folder of the YAML files, whose streams are looked at as often as their `watch.schedule` says;
        or streams as read by `load_spec`, each of which is looked at by every run.
    :param prefix: of the DAG ids, as given to `stream_dags`.

    XCom: a list of the arguments; under the key `summary` what was found; under `memory`, `declared` and `last_good`
    what later looks and ``NAME__revive`` need.
    """

    ui_color = "#e6f3f8"

    def __init__(self, *, streams: str | Path | Sequence[StreamSpec], prefix: str = "", **kwargs: Any) -> None:
        # No retries: the next look is the retry, and knows what this one has told people.
        super().__init__(**{**kwargs, "retries": 0})
        self.streams = streams
        self.prefix = prefix

    @override
    def execute(self, context: Context) -> list[dict[str, Any]]:
        ti: Any = context["ti"]
        if ti.try_number > 1:
            raise AirflowSkipException("This look was cleared. The next run looks; or trigger this DAG.")
        if context["dag_run"].run_type == "backfill":
            raise AirflowSkipException("A look finds what is now, and nothing of another time.")
        # Imported here: parsing a DAG file needs neither hooks nor clients.
        from airflow_stream_provider.operators.watch_look import Look

        return Look(self.streams, self.prefix, context).go()
