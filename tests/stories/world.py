"""The example's stream under load, on a whole stack, with cluster, control log and files as a story wants them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from airflow_stream_provider.control import FilesRoot
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.kafka.control_root import TopicRoot
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from demo.environment import create_topics, lay_out
from demo.history import changes, max_holders
from devstack import drivers, reaper
from devstack.airflow_api import AirflowApi
from devstack.audit import Records, count, deliveries, final_totals, wrong_totals
from devstack.jars import fetch, spark_connector
from devstack.places import CONTROL_PREFIX, FILE, Storage, open_storage, stream_settings
from devstack.producer import Producer
from devstack.spark import QUICK_JVM, bundled_spark
from devstack.stack import LocalStack
from devstack.workload import totals
from tests.support.places import processes_of

ROOT = Path(__file__).parents[2]
YARN, KUBERNETES, MASTERS, LOCAL = "yarn", "kubernetes", "masters", "local"
# Cluster, control log, storage: each of them at least once, and each pair of log and storage. The first three are run
# by `make test-stores`, the others by `make test-clusters`.
ON_FILES, ON_S3PROXY, ON_MASTERS = "standalone+file+file", "standalone+kafka+s3proxy", f"{MASTERS}+kafka+hdfs"
ON_YARN, ON_KUBERNETES, ON_LOCAL = f"{YARN}+kafka+hdfs", f"{KUBERNETES}+kafka+moto", f"{LOCAL}+kafka+file"
WORLDS = (ON_FILES, ON_S3PROXY, ON_MASTERS, ON_YARN, ON_KUBERNETES, ON_LOCAL)
EXECUTORS = ("CoarseGrainedExecutorBackend", "YarnCoarseGrainedExecutorBackend", "KubernetesExecutorBackend")
DAG, OPERATE = "orders__upgrade", "orders__operate"
DAGS = (DAG, OPERATE, "orders__retire", "streams__revive", "streams__watch")
ROLL_BACK = {"operation": "roll-back", "reason": "the story wants it back", "ask": False}
RATE = 100
wait_for = partial(drivers.wait_for, every=1.0)
"""Each look reads the control log, which costs the broker too."""
# Batches take more of this machine than all else; the fewer, the more worlds fit beside each other.
USUAL_TRIGGER, TRIGGER = 'processingTime="1 second"', 'processingTime="3 seconds"'
FIRST_BATCH_SECONDS = 60.0
ON_THIS_MACHINE = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"})}
UPGRADE = {
    "soak": "25s",  # a person who rolls back meets the warm driver
    "keep_previous": "0s",
    "lease_seconds": 15,
    "pause_seconds": 30,
    "boundary_seconds": 30,
    "rehearse_batches": 1,
    "rehearse_seconds": 600,
}


@dataclass
class World:
    """A running stack, and its stream.

    :param cluster: where drivers run: ``standalone``, or one of YARN, KUBERNETES, MASTERS, LOCAL.
    :param root: where the stream's control log is.
    :param versions: of the releases that upgrades were to bring, by run.
    :param failures: when a batch may have run again, of which the log does not say so.
    """

    cluster: str
    stack: LocalStack
    storage: Storage
    spec: StreamSpec
    root: ControlRoot
    versions: dict[str, str] = field(default_factory=dict)
    failures: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = Producer(self.brokers, "orders", RATE)
        self.log = ControlLog(self.root.store(self.spec.name, create=True), self.spec.name)

    @property
    def brokers(self) -> str:
        """The bootstrap servers of Kafka."""
        return self.stack.bootstrap_servers

    @property
    def api(self) -> AirflowApi:
        """Airflow's API."""
        return self.stack.airflow.api

    def start(self, version: str, *arguments: str) -> str:
        """Trigger an upgrade as a user would; return the run."""
        run = self.api.trigger(DAG, release(self.spec, version, *arguments))
        self.versions[run] = version
        return run

    def roll_back(self) -> str:
        """Ask for the release before the one that holds, as a user would; return the run."""
        return self.api.trigger(OPERATE, ROLL_BACK)

    def ends(self, run: str, dag: str = DAG) -> str:
        """Wait for the end of a run; return its state. The success of an upgrade is one: its release has held.

        :raises AssertionError: it was none.
        """
        state = self.api.wait_for_run(dag, run, 600)
        if dag == DAG and state == "success":
            assert self.versions[run] in self.have_held(), f"{run} brought nothing"
        return state

    def upgrade(self, version: str, *arguments: str) -> str:
        """Carry out an upgrade, and return how its run ended."""
        return self.ends(self.start(version, *arguments))

    def version(self) -> str:
        """Return the version of the release that holds now; empty: nobody holds."""
        deployment = self.log.refresh().holding_deployment
        return deployment.release.version if deployment else ""

    def submission(self) -> str:
        """Return the submission id of the driver that holds now; empty: nobody holds."""
        deployment = self.log.refresh().holding_deployment
        return deployment.submission if deployment else ""

    def have_held(self) -> set[str]:
        """Return the versions of all releases that ever held."""
        deployments = self.log.refresh().deployments
        held = (deployment_of(r["incarnation"]) for r in self.log.records() if r.kind == Kind.ACQUIRED)
        return {deployments[name].release.version for name in held if name in deployments}

    def ended_badly(self, since: int = 0) -> dict[str, str]:
        """Return who was fenced or has failed after a record, each with who says so, by incarnation."""
        bad = (r for r in self.log.records(since + 1) if r.kind in (Kind.FENCED, Kind.FAILED))
        return {r.get("incarnation") or "": r.by for r in bad}

    def holder(self) -> str:
        """Return the incarnation that holds; empty: nobody does."""
        return self.log.refresh().holder or ""

    def commits_since(self, at: float) -> bool:
        """Whether every query of the holder has made some commits since a time, by its heartbeat."""
        beat = self.log.heartbeat(self.holder()) if self.holder() else None
        queries = beat.queries if beat else ()
        return bool(queries) and all(sum(each.at > at for each in query.commits) >= 3 for query in queries)

    def settle(self) -> None:
        """Wait until every query has made some more commits."""
        now = time.time()
        wait_for("commits", lambda: self.commits_since(now))

    def goes_on_after(self, run: str) -> None:
        """Wait for the end of a run, then for a holder and its commits."""
        self.ends(run)
        wait_for("a holder", self.holder)
        self.settle()

    def kill(self, *deployments: str) -> None:
        """Kill all processes of drivers.

        :raises AssertionError: one has none, so that nobody would be killed.
        """
        found = {deployment: processes_of(deployment) for deployment in deployments}
        assert all(found.values()), found
        for process in (each for processes in found.values() for each in processes):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def kill_executors(self) -> int:
        """Kill all executors of the stack; return how many they were."""
        mark, killed = self.stack.processes.mark, 0
        for process in reaper.marked(mark):
            with contextlib.suppress(psutil.NoSuchProcess):
                if any(word.rpartition(".")[2] in EXECUTORS for word in process.cmdline()):
                    process.kill()
                    killed += 1
        return killed

    def note_failure(self, since: float) -> None:
        """Note that a batch may have run again since a time: a task of it was killed, and not its driver."""
        self.failures.append((since, time.time()))

    def revived(self, after: str) -> None:
        """Wait until another driver holds than one that was killed."""
        wait_for("another holder", lambda: self.holder() not in ("", after))

    def audit(self) -> Records:
        """Stop the producer, wait until every order is in the output, and count."""
        produced = self.producer.stop()

        def all_out() -> bool:
            seen = {number for number, _ in deliveries(self.brokers, "orders-enriched")}
            return len(seen) >= produced and not wrong_totals(
                totals(produced), final_totals(self.brokers, "order-totals")
            )

        wait_for("every order in the output, and right totals", all_out, 300)
        return count(produced, deliveries(self.brokers, "orders-enriched"), self.repeated())

    def repeated(self) -> list[tuple[float, float]]:
        """Return from when to when a batch may have run again, as its driver ended in the middle of it, by the log."""
        found, ended, holder = [*self.failures], 0.0, ""
        for record in self.log.records():
            if record.kind == Kind.ACQUIRED:
                found += [(ended, record.at + FIRST_BATCH_SECONDS)] if ended else []
                ended, holder = 0.0, record["incarnation"]
            elif record.kind in (Kind.FENCED, Kind.FAILED) and record.get("incarnation") == holder:
                ended = record.at
        return found

    def holders(self) -> int:
        """The most drivers that ever held at once."""
        return max_holders(self.log.records())

    def boundaries(self) -> list[dict[str, str]]:
        """How the queries ended at each hand-over of which one released."""
        released = {r.get("incarnation") for r in self.log.records() if r.kind == Kind.RELEASED}
        return [each.boundary for each in changes(self.log.records()) if each.source in released]


@contextlib.contextmanager
def running(cluster: str, control: str, kind: str, folder: Path) -> Iterator[World]:
    """Start everything; the stream is not deployed yet.

    :param cluster: see `World`.
    :param control: ``file`` or ``kafka``; the control log is in the Kafka that the stream reads.
    :param kind: of the storage; see `open_storage`.
    """
    dags = folder / "dags"
    dags.mkdir()
    with (
        open_storage(kind, folder / "storage") as storage,
        LocalStack(
            folder / "stack",
            dags_folder=dags,
            spark=cluster != LOCAL,
            yarn=cluster == YARN,
            kubernetes=cluster == KUBERNETES,
            masters=2 if cluster == MASTERS else 1,
            worker_cores=9,
            variables={**(ON_THIS_MACHINE if cluster == LOCAL else {}), **storage.variables},
            libraries=storage.libraries,
            core_site=storage.core_site,
        ) as stack,
    ):
        conf = _local_conf() if cluster == LOCAL else stack.cluster.conf
        spec = lay_out_stream(dags, folder / "data", control, storage, stack.bootstrap_servers, conf)
        with contextlib.closing(_root(control, spec, stack)) as root:
            root.make()
            world = World(cluster, stack, storage, spec, root)
            create_topics(world.brokers)
            for dag in DAGS:
                world.api.wait_for_dag(dag)
                world.api.unpause(dag)
            with world.producer:
                yield world


def release(spec: StreamSpec, version: str, *arguments: str) -> dict[str, Any]:
    """Return what the form of an upgrade says of a release with some arguments more."""
    return {"version": version, "arguments": [*spec.arguments, *arguments]}


def lay_out_stream(
    dags: Path, data: Path, control: str, storage: Storage, brokers: str, conf: Mapping[str, str]
) -> StreamSpec:
    """Write the DAG folder of a world, whose example stream is changed to use it; nothing need run for that.

    :param data: folder of the stream.
    :param brokers: bootstrap servers of Kafka.
    :param conf: Spark conf that the cluster needs.
    """
    changes: dict[str, Any] = {
        "upgrade": UPGRADE,
        "conf": dict(conf),
        "watch": {"schedule": "40s"},
        # No story is about lag, and a world that starts beside others begins with much of it.
        "lag": {"max_records": 100_000, "max_seconds": None},
        **stream_settings(control, storage, brokers, data),
    }
    lay_out(ROOT / "dags", dags, brokers=brokers, data=data, changes=changes)
    application = dags / "apps" / "orders.py"
    code = application.read_text()
    assert code.count(USUAL_TRIGGER) == 1
    application.write_text(code.replace(USUAL_TRIGGER, TRIGGER))
    return load_spec(dags / "streams" / "orders.yaml")


def _local_conf() -> dict[str, str]:
    """Return Spark conf for drivers on this machine: the connector, which no cluster brings, and quick start."""
    connector = fetch(spark_connector(bundled_spark()))
    return {"spark.driver.extraClassPath": f"{connector}/*", "spark.driver.extraJavaOptions": QUICK_JVM}


def _root(control: str, spec: StreamSpec, stack: LocalStack) -> ControlRoot:
    # Not the one of the hooks: they keep that of an URL, which in each of these worlds leads to another Kafka.
    if control == FILE:
        return FilesRoot(spec.control)
    return TopicRoot(spec.control, "stores", stack.broker.connection["extra"], CONTROL_PREFIX)
