"""Run a stream by hand: write its control log without Airflow, and start its drivers with spark-submit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

from airflow_stream_provider.clusters.processes import command
from airflow_stream_provider.control import ControlLog, FilesRoot
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP
from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.lifecycle.ids import deployment_of, request_id
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.lifecycle.state import StreamState
from devstack.control_folder import publish

DEADLINE = 600.0

Found = TypeVar("Found")


def wait_for(what: str, condition: Callable[[], Found], seconds: float = DEADLINE, every: float = 0.1) -> Found:
    """Wait for a condition and return its first true value.

    :param what: what is waited for, for the error message.
    :param every: seconds between two looks.
    :raises AssertionError: the condition is not true after `seconds`, by default 600.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(every)
    raise AssertionError(f"waited {seconds:.0f} s for {what}")


@dataclass
class SubmittedDriver:
    """A driver of one deployment on this machine.

    :param deployment: id of the deployment.
    :param popen: the JVM.
    :param output: file with the output of the JVM and its Python process.
    """

    deployment: str
    popen: subprocess.Popen[bytes]
    output: Path
    _tree: list[psutil.Process] = field(default_factory=list)

    def tree(self) -> list[psutil.Process]:
        """Return the live processes of this driver: the JVM, then all processes below it."""
        try:
            root = psutil.Process(self.popen.pid)
            self._tree = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            pass
        return [process for process in self._tree if lives(process)]

    def python(self) -> psutil.Process:
        """Return the Python process that runs the launcher."""
        return next(p for p in self.tree() if any(part.endswith(LAUNCHER) for part in command(p)[1:2]))

    def signal(self, number: int) -> None:
        """Send a signal to all processes of this driver."""
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                process.send_signal(number)

    def exit_code(self) -> int:
        """Wait until the JVM has ended and return its exit code."""
        return self.popen.wait(DEADLINE)

    def log(self) -> str:
        """Return what the driver has printed so far."""
        return self.output.read_text(errors="replace")


class HandRunStream:
    """A stream that is run by hand, without Airflow and without a cluster.

    Its methods write the records that Airflow's tasks would write, and start drivers with spark-submit on this machine.
    `spark_conf` is the Spark conf of these drivers.

    :param root: folder for the control log, the releases and the drivers' output.
    :param stream: name of the stream.
    :param control: where the control log lives; default: in a folder below `root`.
    """

    def __init__(self, root: Path, stream: str = "orders", control: ControlRoot | None = None) -> None:
        self.root = root
        self.spark_conf: dict[str, str] = {}
        self.stream = stream
        self.control: ControlRoot = control or FilesRoot(f"file://{root / 'control'}")
        self.control.make()
        self.url = self.control.url
        self.log = ControlLog(self.control.store(stream, create=True), stream)
        self.folder = root / "control" / stream
        (self.folder / "releases").mkdir(parents=True, exist_ok=True)
        self.drivers: list[SubmittedDriver] = []
        self._requests = 0

    @property
    def state(self) -> StreamState:
        return self.log.refresh()

    def append(self, kind: str, **fields: object) -> None:
        record = make_record(kind, "test", **fields)
        self.log.propose(lambda state: None if any(r.nonce == record.nonce for r in self.log.records()) else record)

    def deploy(
        self, deployment: str, script: Path, *arguments: str, rewind: WantedRewind | None = None, **policy: object
    ) -> SubmittedDriver:
        """Publish and declare a release, and start a driver for it.

        :param rewind: from where it reads Kafka records again; default: it goes on.
        :param policy: fields of the policy, in place of the defaults.
        """
        # A busy machine is no reason to doubt a release.
        settings = {"rehearse_batches": 1, "rehearse_seconds": 400.0, "lease_seconds": 30.0, **policy}
        release = publish(self.folder, version=deployment, application=script, arguments=arguments)
        more = {} if rewind is None else {"rewind": rewind.to_json()}
        self.wish_for(deployment, release, Policy.from_json(settings), **more)
        return self.launch(deployment, script.name, *arguments)

    def wish_for(self, deployment: str, release: Release, policy: Policy, **more: object) -> None:
        """Declare a release, once a wish of the deployment's name has brought it in.

        The first one is to hold, and each later one to stand by.
        """
        fields = {"release": release.to_json(), "policy": policy.to_json(), "reason": "test", **more}
        self.append("wanted", wish=deployment, goal="stand_by" if self.state.wish else "hold", **fields)
        self.append("declared", deployment=deployment, family=deployment, **fields)

    def launch(self, deployment: str, script: str, *arguments: str) -> SubmittedDriver:
        """Start another driver of a declared deployment."""
        folder = self.folder / "releases" / str(self.state.deployments[deployment].release.hash)
        output = self.root / f"{deployment}-{len(self.drivers)}.log"
        work = output.with_suffix(".work")  # each driver has a folder of its own, as on a cluster
        work.mkdir()
        command = spark_submit(
            [
                *(part for key, value in self.spark_conf.items() for part in ("--conf", f"{key}={value}")),
                *("--conf", f"spark.airflow.stream.deployment={deployment}", "--py-files", str(folder / RUNTIME_ZIP)),
                str(folder / LAUNCHER),
                *(
                    "--control",
                    self.url,
                    *self.control.driver_arguments(),
                    "--stream",
                    self.stream,
                    "--deployment",
                    deployment,
                ),
                *("--", script, *arguments),
            ]
        )
        with output.open("wb") as file:
            popen = subprocess.Popen(
                command.words,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=command.environment,
                cwd=work,
                start_new_session=True,
            )
        driver = SubmittedDriver(deployment, popen, output)
        self.drivers.append(driver)
        return driver

    def standby(self, deployment: str) -> str:
        """Wait until a driver of the deployment is a standby and return its incarnation."""

        def found() -> str | None:
            ended = self.state.deployments[deployment].ended
            assert not ended, f"{ended}: {self.state.deployments[deployment].reason}"
            return next((i.id for i in self.state.of_deployment(deployment)), None)

        return str(wait_for(f"{deployment} to be a standby", found))

    def request(self, to: str | None, seconds: float = 120.0) -> str:
        """Wish that `to` holds, or nobody if it is None, unless that is wished, and request it.

        :param seconds: time until the request expires.
        """
        self._requests += 1
        name, state = request_id("test", self._requests), self.state
        family = state.deployments[deployment_of(to)].family if to else ""
        if (family or to is None) and (state.wish is None or state.wish.family != family):
            goal = {"goal": "hold", "family": family} if family else {"goal": "stop"}
            self.append("wanted", wish=f"wish-{name}", reason="test", **goal)
        self.append("requested", request=name, to=to, expires=time.time() + seconds, reason="test")
        return name

    def hand_over(self, to: str) -> None:
        """Request a hand-over and wait until the new holder holds."""
        self.request(to)
        wait_for(f"{to} to hold", lambda: self.state.holder == to)

    def records(self, kind: str) -> list[Record]:
        return [record for record in self.log.records() if record.kind == kind]

    def stop_all(self) -> None:
        """Kill all drivers that are left."""
        for driver in self.drivers:
            driver.signal(signal.SIGKILL)
            driver.popen.wait(30)


@dataclass(frozen=True)
class Command:
    """A command line and its environment.

    :param words: the command and its arguments.
    :param environment: the whole environment.
    """

    words: list[str]
    environment: dict[str, str]


def spark_submit(arguments: list[str]) -> Command:
    """Return a spark-submit command of this environment's pyspark: two cores, small heap, only on 127.0.0.1."""
    # By path and not by import, because tests of other Spark versions run in environments of their own.
    home = Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "pyspark"
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    words = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "512m"]
    words += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment.update(SPARK_HOME=str(home), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    return Command([*words, *arguments], environment)


@contextmanager
def hand_run_stream(root: Path, control: ControlRoot | None = None) -> Iterator[HandRunStream]:
    """Yield a `HandRunStream`, and kill its drivers at the end."""
    stream = HandRunStream(root, control=control)
    try:
        yield stream
    finally:
        stream.stop_all()


def lives(process: psutil.Process) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # it has ended between the two looks
        return False
