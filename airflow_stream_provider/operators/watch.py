"""Watch all streams of a folder, and bring one back: a look says which of them need that."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseOperator, Context, Variable
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout
from typing_extensions import override

from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.lineage import TellsLineage
from airflow_stream_provider.spec.watched import CHANGE, REFRESH

if TYPE_CHECKING:
    from airflow_stream_provider.monitoring.folder_look import FolderLook, Found
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step, TaskIdentity
    from airflow_stream_provider.planning.waits import Needs, WaitOutcome
    from airflow_stream_provider.spec.folder import StreamFile
    from airflow_stream_provider.spec.stream import StreamSpec

# XCom of a look: what it found.
SUMMARY = "summary"
# Runs that one look triggers: Airflow maps a task at most 1,024 times, and each is a task of its own.
MAX_TRIGGERED = 100
# Seconds in which the files must have been read.
READ_SECONDS = 60.0


def _stored(variable: str) -> dict[str, Any]:
    """Return what a Variable has; empty: there is none.

    :raises StreamError: it cannot be read. Begun anew, it would lack every control root whose YAML is gone.
    """
    from airflow_stream_provider.lifecycle.errors import StreamError

    text = Variable.get(variable, default=None)
    # `get` returns the default, too, when the API server does not answer. Airflow 3.2 has no `keys`, and cannot tell.
    keys = getattr(Variable, "keys", None)
    if text is None and (keys is None or variable not in keys(prefix=variable)):
        return {}
    try:
        found = json.loads(text or "")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise StreamError(
            f"The Airflow Variable {variable}, which has the control roots of this watch, cannot be read.",
            next_step="If it stays so, correct its JSON; or remove it, and name each control root in a YAML once.",
        )
    return found


class KnownRoots:
    """The control roots of a watch, in an Airflow Variable that has the id of its DAG.

    The watch adds those that its YAML files name, so that it looks on when the files are gone; only a person removes
    one. The Variable also has the memory of the last look, for the time in which no control root can keep it.
    """

    def __init__(self, watch: str) -> None:
        self._key = watch
        said = _stored(watch)
        listed = said.get("roots")
        self.urls = {url for url in listed if isinstance(url, str)} if isinstance(listed, list) else set()
        self.memory = said.get("memory")

    def add(self, urls: set[str]) -> None:
        """Keep more of them."""
        if not urls <= self.urls:
            self.urls |= urls
            self.save(self.memory)

    def declared(self, stream: str, control: str) -> StreamSpec:
        """Return a stream as it was declared last.

        :param control: URL of its control root; empty: the first that has it.
        :raises SpecError: it is none of these, or no stream of this name was declared there.
        :raises ControlUnavailable: a control root cannot be read now.
        """
        from airflow_stream_provider.hooks.control import declared
        from airflow_stream_provider.lifecycle.errors import SpecError
        from airflow_stream_provider.lifecycle.ids import check_stream_name

        check_stream_name(stream)
        for url in sorted(self.urls & {control} if control else self.urls):
            found = declared(stream, url)
            if found is not None and found.watch in ("", self._key):
                return found.spec
        raise SpecError(
            f"{self._key} looks after no stream {stream} in {control or 'its control roots'}.",
            next_step="Name a stream that was deployed; the next look of that DAG notes what its YAML says.",
        )

    def save(self, memory: Any) -> None:
        """Keep the memory of a look."""
        self.memory = memory
        about = "Control roots of this watch, kept by itself. Remove one here that is given up."
        value = {"roots": sorted(self.urls), "memory": memory}
        Variable.set(self._key, value, description=about, serialize_json=True)


class WatchStreamsOperator(BaseOperator):
    """Look once at every stream of a folder that is due, tell people of incidents, and say which streams to bring back.

    A look measures lag and health, sends the gauges, adds a sample to those that the command line shows, and tells
    people of every incident when it opens and when it is over, with the same id; for a place that many streams need
    also when more of them go down. It brings nothing back itself: it returns the arguments of TriggerDagRunOperator for
    the runs of ``FOLDER__revive`` that are needed now, at most 100. Streams for which one is queued or runs are left
    out; but beside one that runs, and may wait for a cluster, another is triggered for steps that need no cluster.

    With `upgrade.on_change` it also returns those for a run of ``NAME__upgrade``, once two looks have found the same
    change of the YAML or of a file, and no upgrade is queued or runs. With `upgrade.refresh` the same for a fresh
    driver of the release that runs, before its heap or a token of it has run out.

    Each stream is watched by what its YAML declared last, which the watch and each deployment note in the control root.
    A YAML that is gone or cannot be used is an incident, and changes nothing: the stream is watched and brought back
    until it was stopped, has finished, or its control log has gone, too, as people know. When the look itself fails,
    everybody is told whom a stream names, once, and once that it works again.

    Skipped in a backfill.

    :param streams: the folder of the YAML files.
    :param prefix: of the DAG ids, as given to `stream_dags`.
    :param revive_dag_id: of the DAG that brings streams back; default: that of the folder.

    XCom: a list of the arguments; under the key `summary` what was found.
    """

    ui_color = "#e6f3f8"

    def __init__(self, *, streams: str | Path, prefix: str = "", revive_dag_id: str = "", **kwargs: Any) -> None:
        # No retries: the next look is the retry.
        super().__init__(**{**kwargs, "retries": 0})
        self.streams = streams
        self.prefix = prefix
        self.revive_dag_id = revive_dag_id or f"{prefix}{Path(streams).name}__revive"

    @override
    def execute(self, context: Context) -> list[dict[str, Any]]:
        run, ti = context["dag_run"], context["ti"]
        if run.run_type == "backfill":
            raise AirflowSkipException("A look finds what is now, and nothing of another time.")
        # Imported here: parsing a DAG file needs neither hooks nor clients.
        from airflow_stream_provider.lifecycle.errors import says
        from airflow_stream_provider.monitoring.folder_look import FolderLook

        roots = KnownRoots(ti.dag_id)
        files, unread = self._read()
        roots.add({file.spec.control for file in files if file.spec is not None})
        # A person who triggers or clears it wants to know of all streams.
        everything = run.run_type != "scheduled" or ti.try_number > 1
        look = FolderLook(
            ti.dag_id, files, roots.urls, roots.memory, dict(context), roots.save, unread=unread, everything=everything
        )
        try:
            found = look.go()
            triggers = self._revivals(look, found, ti) + self._upgrades(found, ti)
        except (Exception, AirflowTaskTimeout) as error:
            look.tell_of_watch(f"The watch cannot look at its streams, and would not notice their end. {says(error)}")
            raise
        finally:
            look.watching.keep()
        ti.xcom_push(key=SUMMARY, value=dict(found.summary))
        return triggers

    def _read(self) -> tuple[Sequence[StreamFile], str]:
        """Return the YAML files; where the folder is gone or hangs, why."""
        from airflow_stream_provider.control.bounded import call
        from airflow_stream_provider.lifecycle.errors import StreamError, says
        from airflow_stream_provider.spec.folder import read_folder

        try:
            return call(lambda: read_folder(self.streams), READ_SECONDS, f"The folder {self.streams}"), ""
        except (StreamError, OSError) as error:
            return (), says(error)

    def _revivals(self, look: FolderLook, found: Found, ti: Any) -> list[dict[str, Any]]:
        """Return the arguments of the triggers, and remember the runs: of one stream one is under way at a time."""
        dag_id = self.revive_dag_id
        names = list(found.revive)
        # Streams that are never well again must not keep the others from their run.
        random.shuffle(names)
        chosen: list[dict[str, Any]] = []
        for name in names:
            known = look.memory.runs.get(name, ())
            active = partial(ti.get_dr_count, dag_id, run_ids=list(known))
            if len(chosen) < MAX_TRIGGERED and (not known or _has_room(active, beside=name in found.beside)):
                run_id = f"watch__{name}__{look.now:.0f}"
                look.memory.runs[name] = (*known[-1:], run_id)
                conf = {"stream": name, "control": found.revive[name].control}
                chosen.append({"trigger_dag_id": dag_id, "trigger_run_id": run_id, "conf": conf})
        return chosen

    def _upgrades(self, found: Found, ti: Any) -> list[dict[str, Any]]:
        # One run for each wish, and for each driver that is refreshed: if that could not even begin, people are told
        # once, and clear it or change the YAML.
        runs: dict[str, tuple[str, dict[str, str]]] = {
            name: (f"{REFRESH}{each.deployment}", {"release": each.release, "reason": each.reason})
            for name, each in found.refresh.items()
        }
        runs |= {name: (f"{CHANGE}{wish}", {}) for name, wish in found.changed.items()}
        dags = {name: f"{self.prefix}{name}__upgrade" for name in sorted(runs)}
        free = [name for name in dags if not ti.get_dr_count(dags[name], states=["queued", "running"])]
        return [
            {"trigger_dag_id": dags[name], "trigger_run_id": runs[name][0], "conf": runs[name][1]}
            for name in free[:MAX_TRIGGERED]
        ]


def _has_room(count: Callable[..., int], *, beside: bool) -> bool:
    """Whether no run that was triggered for a stream is under way; or one that runs, beside which another is needed."""
    runs = count(states=["queued", "running"])
    return not runs or (beside and runs == 1 and not count(states=["queued"]))


# A heartbeat that has grown since an older sample of the watch may have stood still again for most of the time. So
# whatever the watch's schedule: without a sample a sign of life is waited for, which takes seconds.
SAMPLE_SECONDS = 180.0


class ReviveStreamOperator(TellsLineage, StreamOperator):
    """Take the steps that are left towards what is wished for; skipped, with the reason, when there are none now.

    It wishes nothing itself. So it fences a dead driver (killed, and confirmed gone by the cluster), ends requests that
    no driver can fulfil any more, appoints a warm driver or starts one, and goes on where a task died that had wished
    something. A stream that was stopped or has finished is left alone.

    :param stream: the stream; None: that of `name`, as it was declared last, whatever its YAML says by now.
    :param name: of the stream. (templated)
    :param control: URL of its control root; empty: the one that has it. (templated)
    :param watch: id of the DAG that watches it and knows its control root.

    XCom: `stream`, `holder`, `phase`.
    """

    template_fields: Sequence[str] = (*StreamOperator.template_fields, "name", "control")

    WAIT_SECONDS = 1500.0
    STREAMS = "*"
    CHANGES_HOLDER = True
    _before: Mapping[str, int] = {}

    def __init__(
        self, *, stream: StreamSpec | None = None, name: str = "", control: str = "", watch: str = "", **kwargs: Any
    ) -> None:
        self.given = stream is not None
        super().__init__(stream=cast("StreamSpec", stream), **kwargs)
        self.name = name
        self.control = control
        self.watch = watch

    @override
    def execute(self, context: Context) -> Any:
        self._find()
        return super().execute(context)

    @override
    def resume(self, context: Context, event: Any = None) -> Any:
        self._find()
        return super().resume(context, event)

    def _find(self) -> None:
        if self.given:
            return
        from airflow_stream_provider.hooks.failing import failing_without_retry

        with failing_without_retry():
            self.stream = KnownRoots(self.watch).declared(self.name, self.control)

    @override
    def begin(self, context: Context) -> None:
        # Imported here: parsing a DAG file needs no samples.
        from airflow_stream_provider.monitoring.samples import last

        if not self.hook.exists():
            raise AirflowSkipException("This stream has never been deployed.")
        sample = last(self.hook.samples)
        # Either way: the clock of the machine that wrote it may be wrong.
        lately = sample is not None and abs(time.time() - sample.at) <= SAMPLE_SECONDS
        self._before = sample.counters if sample is not None and lately else {}

    @override
    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        from airflow_stream_provider.planning.reconcile import reconcile
        from airflow_stream_provider.planning.scene import Scene
        from airflow_stream_provider.planning.steps import Done, GiveUp, Later, Skip

        step = reconcile(Scene(snapshot, identity, outcome, before=self._before))
        did = any(record.by == identity.by for record in snapshot.records)
        if isinstance(step, Later):
            tried = snapshot.state.deployments.get(step.deployment)
            did = tried is not None and tried.declared.by == identity.by
        if isinstance(step, (GiveUp, Later)) and not did:
            return Skip(step.error.message)
        if not isinstance(step, Done):
            return step
        if not did:
            lives = f"{snapshot.holding} holds it, and its driver is alive." if snapshot.holding else ""
            return Skip(lives or f"There is nothing to do. {snapshot.holder_sentence}")
        return Done({"stream": snapshot.stream, "holder": snapshot.holding, "phase": snapshot.state.phase.value})

    @override
    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        from airflow_stream_provider.planning.due import needs

        return needs(snapshot)
