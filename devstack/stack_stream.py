"""A stream that is run by hand on the local stack: drivers on its standalone cluster, orders through its Kafka."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from airflow_stream_provider.checkpoint.read import read
from airflow_stream_provider.clusters import ClusterConnection, Job, Whose, open_cluster
from airflow_stream_provider.control.releases import make_release
from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.hooks.connections import storage_connection
from airflow_stream_provider.hooks.submit import job_of, submit_once
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.releases.open_place import address_of, open_place
from devstack.audit import Records, count, deliveries, final_totals, wrong_totals
from devstack.commits import CommitWatcher
from devstack.drivers import HandRunStream, lives, wait_for
from devstack.places import Storage
from devstack.producer import Producer
from devstack.stack import LocalStack
from devstack.workload import totals

APP = Path(__file__).with_name("app_orders_kafka.py")
QUERIES = ("out", "totals")


class StackStream(HandRunStream):
    """A stream that is run by hand, with topics, checkpoint, control folder and producer of its own, on a shared stack.

    :param root: folder for the control log and the checkpoints.
    :param stack: the running local stack.
    :param name: name of the stream.
    :param rate: orders per second; default 300.
    :param control: where the control log lives; default: in a folder below `root`.
    :param storage: where checkpoints and releases are, and can be read from here; default: below `root`.
    """

    # What its releases run.
    application = APP

    def __init__(
        self,
        root: Path,
        stack: LocalStack,
        name: str,
        *,
        rate: int = 300,
        control: ControlRoot | None = None,
        storage: Storage | None = None,
    ) -> None:
        super().__init__(root, name, control)
        self.stack = stack
        storage = storage or Storage(str(root), folder=root)
        assert storage.folder is not None
        connection = stack.cluster.connection
        self.cluster = open_cluster(
            ClusterConnection(connection["host"], extra=connection["extra"], login=connection.get("login", ""))
        )
        self._location = f"{storage.checkpoints}/{name}"
        self._releases = storage.fields.get("storage", "")
        connection_id = storage.fields.get("storage_connection")
        self._place = open_place(
            self._releases, storage_connection(connection_id) if connection_id else None, name, self.folder
        )
        self.checkpoint = storage.folder / "checkpoints" / name
        stack.broker.create_topics({f"{name}-{part}": 2 for part in ("in", *QUERIES)})
        self.producer = Producer(stack.bootstrap_servers, f"{name}-in", rate)
        self.watcher = CommitWatcher({query: self.checkpoint / query for query in QUERIES})

    def conf(self) -> dict[str, str]:
        """Return the Spark conf of small applications, of which two fit on the cluster."""
        return {
            **self.stack.cluster.conf,
            "spark.cores.max": "2",
            "spark.executor.memory": "700m",
            "spark.driver.memory": "700m",
            "spark.sql.shuffle.partitions": "2",
        }

    def arguments(self) -> tuple[str, ...]:
        """Return the application's arguments: broker, topics, checkpoints."""
        return (self.stack.bootstrap_servers, self.stream, self._location)

    def submit(self, deployment: str, *options: str, conf: Mapping[str, str] | None = None, **policy: object) -> None:
        """Publish and declare a release, and submit a driver for it to the cluster; see `declare`."""
        job = self.declare(deployment, *options, conf=conf, **policy)
        assert self.try_to_submit(job, first=True)

    def try_to_submit(self, job: Job, *, first: bool) -> bool:
        """Submit a driver for what was declared, as one try of a task does; see `submit_once`."""
        release = self.state.deployments[job.deployment].release
        return submit_once(self.log, self.cluster, job, "test", first=first, verify=lambda: self._place.verify(release))

    def declare(self, deployment: str, *options: str, conf: Mapping[str, str] | None = None, **policy: object) -> Job:
        """Publish and declare a release, and return the job that is to be submitted for it; see `wish_for`.

        :param options: more arguments for the application.
        :param policy: fields of the policy, in place of the defaults.
        """
        release, files = make_release(
            version=deployment,
            application=self.application,
            arguments=(*self.arguments(), *options),
            conf={**self.conf(), **(conf or {})},
        )
        release = replace(release, storage=self._releases)
        self._place.publish(release, files)
        self.wish_for(deployment, release, Policy.from_json({"rehearse_batches": 3, **policy}))
        where = address_of(release, self.stream, self.folder)
        log = self.log.store.origin()
        return job_of(self.control, self.stream, self.folder, deployment, release, where, log=log)

    def beat(self, incarnation: str) -> Heartbeat:
        """Return the heartbeat of an incarnation, an empty one if it never wrote one."""
        return self.log.heartbeat(incarnation) or Heartbeat()

    def processes(self, incarnation: str) -> list[psutil.Process]:
        """Return the live processes of a driver: its JVM, its Python process and their children."""
        beat = self.beat(incarnation)
        found: dict[int, psutil.Process] = {}
        for pid in (beat.jvm_pid, beat.pid):
            try:
                process = psutil.Process(pid)
                if incarnation.rpartition(".")[0] in " ".join(process.cmdline()):
                    found.update({p.pid: p for p in [process, *process.children(recursive=True)]})
            except psutil.NoSuchProcess:
                continue
        return [process for process in found.values() if lives(process)]

    def kill(self, incarnation: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to all processes of a driver."""
        for process in self.processes(incarnation):
            with suppress(psutil.NoSuchProcess):  # Hadoop starts children that end at once, such as chmod
                process.send_signal(number)

    def audit(self, *, failures: tuple[tuple[float, float], ...] = ()) -> Records:
        """Stop the producer, wait until every order is in the output, and count.

        :param failures: intervals in which a batch ran again after a failure; see `devstack.audit.count`.
        """
        produced = self.producer.stop()
        brokers = self.stack.bootstrap_servers

        def all_out() -> bool:
            seen = {number for number, _ in deliveries(brokers, f"{self.stream}-out")}
            return len(seen) >= produced and not wrong_totals(
                totals(produced), final_totals(brokers, f"{self.stream}-totals")
            )

        wait_for("every produced order to be delivered", all_out)
        return count(produced, deliveries(brokers, f"{self.stream}-out"), failures)

    def in_flight(self) -> int:
        """Return the number of orders in the uncommitted batch of `out`, which a kill may duplicate."""
        found = read(self.checkpoint / "out")
        ends = (found.planned or {}).get(f"{self.stream}-in", {})
        starts = found.committed.get(f"{self.stream}-in", {})
        return sum(end - starts.get(partition, 0) for partition, end in ends.items())

    def commits_after(self, at: float, query: str = "out") -> int:
        """Return the number of commits of a query after a time."""
        self.watcher.look()
        return sum(time > at for time in self.watcher.commits[query].values())

    def settle(self, commits: int = 3) -> None:
        """Wait until both queries have made some more commits."""
        now = time.time()
        wait_for("commits", lambda: all(self.commits_after(now, query) >= commits for query in QUERIES))

    def close(self) -> None:
        """Kill all drivers, also paused ones, and wait until they are gone."""
        for deployment in self.state.deployments.values():
            if deployment.submission:
                self.cluster.kill(deployment.submission)
        for incarnation in self.log.heartbeats():
            self.kill(incarnation, signal.SIGCONT)
            self.kill(incarnation)
        origin = self.log.store.origin()
        for deployment in self.state.deployments.values():
            if deployment.submission:
                wait_for(
                    "the driver to be gone",
                    partial(self._is_gone, deployment.submission, Whose(deployment.id, origin)),
                )

    def _is_gone(self, submission: str, whose: Whose) -> bool:
        # A cluster that was lost never knows a driver from before again; it is killed by its process, above.
        return not self.cluster.remains(submission, whose).alive


@contextmanager
def stack_stream(root: Path, stack: LocalStack, name: str, **options: Any) -> Iterator[StackStream]:
    """Yield a stream (see `StackStream`) with a running producer, and kill its drivers at the end."""
    opened = StackStream(root, stack, name, **options)
    try:
        with opened.watcher, opened.producer:
            yield opened
    finally:
        opened.close()
