"""Tasks tell OpenLineage, where its provider is installed, what a stream's queries read and write, and its holder.

A task tells what its last look found. It reads nothing for that: OpenLineage gives it ten seconds. Before the first
look it knows nothing, so the event at its start names no data. Data have the names that OpenLineage's rules give them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lifecycle.errors import says
from airflow_stream_provider.lifecycle.kafka_source import kafka_sources
from airflow_stream_provider.lifecycle.texts import holds_secret

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_stream_provider.lifecycle.state import Incarnation, StreamState
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import TaskIdentity

log = logging.getLogger(__name__)

# As Hadoop reads a location: `?` and `#` are parts of a name.
_PLACE = re.compile(r"(?:([A-Za-z][\w+.-]*):)?(?://([^/]*))?(/.*)?", re.DOTALL)
# How OpenLineage names the stores whose names are keys, without the slash of a path.
_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "wasbs": "wasbs"}


class TellsLineage:
    """The part of a stream operator that tells OpenLineage of the driver that its task works on."""

    if TYPE_CHECKING:
        _last_look: Snapshot | None
        _result: Mapping[str, Any]

        def subject(self, state: StreamState, identity: TaskIdentity) -> str:
            """Return the deployment that the task works on."""

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage | None:
        """Return the data, and the run facet `stream_holder` of a change of holder; None before the first look.

        OpenLineage calls this for a failure, too.
        """
        from airflow.providers.common.compat.openlineage.facet import Dataset
        from airflow.providers.openlineage.extractors import OperatorLineage

        from airflow_stream_provider.planning.steps import TaskIdentity

        if self._last_look is None:
            return None
        state = self._last_look.state
        mine = self.subject(state, TaskIdentity.of({"ti": task_instance}))
        driver = driver_of(state, mine)
        facet = holder_facet(self._last_look, self._result)
        return OperatorLineage(
            inputs=[Dataset(*place) for place in sorted(set(inputs(self._last_look, driver)))],
            outputs=[Dataset(*place) for place in sorted(set(outputs(driver)))],
            run_facets={"stream_holder": _run_facet(facet)} if facet else {},
        )


def driver_of(state: StreamState, deployment: str) -> Incarnation | None:
    """Return the last driver of a deployment, None if it has none yet; without a deployment who holds, or held last."""
    return next(reversed(state.of_deployment(deployment)), None if deployment else state.last_driver)


def inputs(snapshot: Snapshot, driver: Incarnation | None) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of what a driver's queries read: Kafka topics, and folders of files.

    The topics of a pattern are those of the driver's last commits, and left out where the query has more Kafka sources:
    the driver does not say of which one they are. A query that the script started later is left out, too: the driver
    does not say which Kafka it reads.
    """
    if driver is None:
        return
    beat = snapshot.heartbeats.get(driver.id)
    for query in driver.queries:
        progress = beat.query(query["name"]) if beat is not None else None
        committed = {topic for source in (progress.committed if progress else ()) for topic in source or ()}
        sources = kafka_sources(query)
        for source in sources:
            for topic in (source.names or (committed if len(sources) == 1 else ())) if source.servers else ():
                yield f"kafka://{source.servers[0]}", topic
        for said in query.get("sources", ()):
            yield from _of_path(str(said).partition(":path=")[2], query)


def outputs(driver: Incarnation | None) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of what a driver's queries write: topics and folders, as far as they are known.

    A driver that has never held the stream has written nothing. A table has no name without its catalog.
    """
    for query in driver.queries if driver is not None and driver.epoch else ():
        target, servers = str(query.get("target") or ""), query.get("sink_servers")
        if query.get("sink") == "kafka":
            if target and servers:
                yield f"kafka://{servers[0]}", target
        else:
            yield from _of_path(target, query)


def _of_path(path: str, query: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    found = _PLACE.fullmatch(path)
    if not path or found is None or holds_secret(path):
        return
    scheme, host, folder = found[1], found[2] or "", (found[3] or "").rstrip("/") or "/"
    if scheme == "file" and host in ("", "localhost"):
        yield "file", folder
    elif scheme is None and not host:
        # On `fs.defaultFS`. The driver says a checkpoint there as a path only where that is local.
        if str(query.get("checkpoint") or "").startswith("/"):
            yield "file", folder
    elif host and scheme in _STORES:
        yield f"{_STORES[scheme]}://{host}", folder[1:] or "/"
    elif host and scheme:
        yield f"{scheme}://{host}", folder


def holder_facet(snapshot: Snapshot, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a task has changed the holder; empty when it has not.

    :param told: the XCom of the task; without a `request` the holder held before.
    :return: `stream`, `epoch`, `driver`; `deployment`, `version` and `release` (its hash) of what holds, and the same
        with `previous_` of what held before, empty when nothing did; `gap_seconds` by query as far as it is known.
    """
    state = snapshot.state
    held, before = state.holding_deployment, state.deployments.get(told.get("previous") or "")
    changed = told.get("request") and (told.get("deployment"), told.get("epoch"))
    if held is None or changed != (held.id, state.epoch):
        return {}
    sides = (("", held), ("previous_", before))
    return {
        "stream": snapshot.stream,
        "epoch": state.epoch,
        "driver": state.holder,
        **{f"{side}deployment": each.id if each else "" for side, each in sides},
        **{f"{side}version": each.release.version if each else "" for side, each in sides},
        **{f"{side}release": each.release.hash if each else "" for side, each in sides},
        "gap_seconds": dict(told.get("gap_seconds") or {}),
    }


def _run_facet(fields: Mapping[str, Any]) -> Any:
    import attr
    from openlineage.client.facet_v2 import RunFacet

    return attr.make_class("StreamHolderRunFacet", list(fields), bases=(RunFacet,), kw_only=True)(**fields)


def parent_job(context: Any) -> dict[str, str]:
    """Return the Spark conf by which a driver's own OpenLineage listener names this task as the parent of its run.

    Empty unless Airflow has `[openlineage] spark_inject_parent_job_info`. How events are sent never travels
    (`spark_inject_transport_info`): its key would stand in the arguments of processes and on the cluster's pages.
    """
    from airflow.sdk.configuration import conf

    try:
        if not conf.getboolean("openlineage", "spark_inject_parent_job_info", fallback=False):
            return {}
        from airflow.providers.common.compat.openlineage.utils import spark

        from airflow_stream_provider.clusters.job import refuse_secret_conf

        found = spark.inject_parent_job_information_into_spark_properties({}, context)
        refuse_secret_conf(found)
    except Exception as error:  # noqa: BLE001 - no stream is to wait for its lineage
        log.warning("The driver is not told of its parent run: %s", says(error))
        return {}
    return {key: str(value) for key, value in found.items()}
