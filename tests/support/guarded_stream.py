"""A stream on the real stack that is upgraded as a run of its DAG does it, and what a refusal must not touch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.checkpoint.logs import numeric_names
from airflow_stream_provider.cli.run_here import Exit, Ran, run_here
from airflow_stream_provider.clusters import ClusterConnection
from airflow_stream_provider.clusters.master_api import find_master
from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.check import CheckReleaseOperator
from airflow_stream_provider.operators.stream import HandOverOperator
from airflow_stream_provider.operators.upgrade import SubmitStandbyOperator
from airflow_stream_provider.planning.foreseen import Foreseen
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from devstack.stack import LocalStack
from devstack.stack_stream import APP, StackStream, stack_stream
from devstack.unmanaged import yaml_of


class GuardedStream:
    """A stream with a YAML, whose tasks run in this process, and what a refusal must not touch.

    :param orders: the stream on the stack.
    :param folder: for `streams/`, `apps/` and the file `drag`; while that exists, every batch of `out` hangs.
    """

    def __init__(self, orders: StackStream, folder: Path) -> None:
        self.orders = orders
        self.folder = folder
        self.drag = folder / "drag"
        arguments = [*orders.arguments(), "--drag", str(self.drag)]
        connections = {"cluster": "spark_under_test", "kafka": "kafka_under_test"}
        upgrade = {"rehearse_seconds": "10m"}  # a busy machine is no reason to refuse
        self.file = yaml_of(orders, folder, arguments=arguments, upgrade=upgrade, **connections)

    @property
    def spec(self) -> StreamSpec:
        """The stream as its YAML says now."""
        return load_spec(self.file)

    @property
    def hook(self) -> StreamHook:
        """A hook of the stream."""
        return StreamHook.of(self.spec)

    def write(self, fields: Mapping[str, Any]) -> None:
        """Let the YAML say something else."""
        self.file.write_text(yaml.safe_dump(dict(fields)))

    def copied(self, name: str) -> StreamSpec:
        """A stream of another name with a YAML that says the same."""
        file = self.file.with_name(f"{name}.yaml")
        file.write_text(yaml.safe_dump({**yaml.safe_load(self.file.read_text()), "name": name}))
        return load_spec(file)

    def with_conf(self, **conf: str) -> StreamSpec:
        """The stream with other Spark conf; `__` stands for a dot."""
        more = {key.replace("__", "."): value for key, value in conf.items()}
        spec = self.spec
        return spec.model_copy(update={"conf": {**spec.conf, **more}})

    def script(self, name: str, *changes: tuple[str, str]) -> str:
        """Write the application with some words replaced, and return what `application` says then."""
        text = APP.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (self.folder / "apps" / name).write_text(text)
        return f"apps/{name}"

    # -- the tasks of an upgrade -------------------------------------------------------------------------------------

    def check(self, run: str = "refused", spec: StreamSpec | None = None, **form: Any) -> dict[str, Any]:
        """Run the task `check`, and return its XCom."""
        ti = SimpleNamespace(dag_id="d", run_id=run, task_id="check", map_index=-1, xcom_push=lambda **_: None)
        context: Any = {"ti": ti}
        return CheckReleaseOperator(task_id="check", stream=spec or self.spec, **form).execute(context)

    def refusal(self, spec: StreamSpec | None = None, **form: Any) -> str:
        """Run the task `check`, which must refuse, and return what it says."""
        with pytest.raises(AirflowFailException) as found:
            self.check(spec=spec, **form)
        return str(found.value)

    def refuses(self, spec: StreamSpec | None = None, commits: int = 1, **form: Any) -> str:
        """Run the task `check`, which must refuse and touch nothing, and return what it says."""
        with self.untouched(commits=commits):
            return self.refusal(spec, **form)

    def submit(self, run: str, checked: dict[str, Any], spec: StreamSpec | None = None, **form: Any) -> Ran:
        """Run the task `submit` of what was checked."""
        return self.task(SubmitStandbyOperator, run, spec, checked=checked["release"], **form)

    def task(self, kind: type[StreamOperator], run: str, spec: StreamSpec | None = None, **arguments: Any) -> Ran:
        """Run another task of a run."""
        operator = kind(task_id=kind.__name__, stream=spec or self.spec, **arguments)
        return run_here(operator, TaskIdentity("d", run, kind.__name__))

    def does(self, kind: type[StreamOperator], run: str, **arguments: Any) -> Ran:
        """Run another task of a run, which must do what it is asked for."""
        ran = self.task(kind, run, **arguments)
        assert ran.code is Exit.DONE, ran.said
        return ran

    def deploy(self, run: str, **form: Any) -> str:
        """Run all tasks of an upgrade, and return the deployment that holds then."""
        ran = self.submit(run, self.check(run, **form), **form)
        assert ran.code is Exit.DONE, ran.said
        self.does(HandOverOperator, run, family=ran.result["family"], approved="the test")
        return str(ran.result["deployment"])

    def fails_to_come_up(self, run: str, spec: StreamSpec | None = None, **form: Any) -> str:
        """Check and submit a release of which only its driver can tell that it is no good; return what is said then.

        The holder is not touched, and the driver of that release is over.
        """
        with self.untouched(declared=False):
            ran = self.submit(run, self.check(run, spec, **form), spec, **form)
            assert ran.code is Exit.FAILED, ran
        assert [d.id for d in self.orders.state.deployments.values() if not d.ended] == [self.holding]
        return ran.said

    def ahead(self, operation: Operation, spec: StreamSpec | None = None, **words: Any) -> Foreseen:
        """Return what a person is told who asks for an operation: by the form, or on the command line."""
        spec = spec or self.spec
        requested = RequestedRelease.of(spec) if operation.brings_up else None
        return look_ahead(StreamHook.of(spec), operation, requested, **words)

    # -- what must not change ----------------------------------------------------------------------------------------

    def checkpoint(self, query: str) -> Path:
        """The checkpoint of a query."""
        assert isinstance(self.orders.checkpoint, Path), "it is in a folder of this machine"
        return self.orders.checkpoint / query

    @property
    def holding(self) -> str:
        """The deployment that holds."""
        return deployment_of(self.orders.state.holder or "")

    @contextmanager
    def untouched(self, *, declared: bool = True, commits: int = 1) -> Iterator[None]:
        """Nobody else may hold or be asked to, nothing is submitted, and the holder goes on committing.

        :param declared: whether not even a driver is submitted, nor anything written to the control log.
        :param commits: so many commits of every query must follow; 0: nobody holds.
        """
        before = self._seen(declared=declared)
        yield
        assert self._seen(declared=declared) == before
        if commits:
            self.orders.settle(commits)

    def _seen(self, *, declared: bool) -> tuple[object, ...]:
        state = self.orders.state
        changes = [r.seq for kind in (Kind.REQUESTED, Kind.ACQUIRED, Kind.RELEASED) for r in self.orders.records(kind)]
        if not declared:
            return state.holder, state.epoch, changes
        return state.holder, state.epoch, changes, state.seq, self.submissions()

    def submissions(self) -> set[str]:
        """The ids of all drivers that the cluster has ever had."""
        connection = self.orders.stack.cluster.connection
        master = find_master(ClusterConnection(connection["host"], extra=connection["extra"]).masters)
        return {driver["id"] for driver in (*master.active_drivers, *master.completed_drivers)}


@contextmanager
def guarded_stream(stack: LocalStack, folder: Path, name: str) -> Iterator[GuardedStream]:
    """Yield a stream of which release 1 runs."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": stack.bootstrap_servers}}
    with pytest.MonkeyPatch.context() as patch, stack_stream(folder, stack, name) as orders:
        patch.setenv("AIRFLOW_CONN_KAFKA_UNDER_TEST", json.dumps(kafka))
        patch.setenv("AIRFLOW_CONN_SPARK_UNDER_TEST", json.dumps(stack.cluster.connection))
        stream = GuardedStream(orders, folder)
        stream.deploy("first")
        orders.settle()
        yield stream
        for record in orders.log.records():  # shown when a test fails
            print(record.seq, record.kind, record.by, {k: v for k, v in record.fields.items() if k != "release"})


@contextmanager
def damaged(*files: Path) -> Iterator[None]:
    """Let files be gone meanwhile; of checksums, one bit is another."""
    whole = {file: file.read_bytes() for file in files}
    for file, data in whole.items():
        if file.suffix == ".crc":
            file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        else:
            file.unlink()
    try:
        yield
    finally:
        for file, data in whole.items():
            file.write_bytes(data)


def newest(folder: Path) -> Path:
    """Return the file of the last batch in `offsets` or `commits`."""
    return folder / str(numeric_names(folder)[-1])


def last_state(root: Path) -> list[Path]:
    """Return what a state store has of the last commit: changes, and a snapshot if there is one."""
    return sorted((root / "state" / "0" / "1").glob(f"{int(newest(root / 'commits').name) + 1}.*"))


def last_checksum(root: Path) -> list[Path]:
    """Return the hidden checksum of the last commit."""
    return [root / "commits" / f".{newest(root / 'commits').name}.crc"]
