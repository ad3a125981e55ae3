"""What a run acts on: the whole stack, the example's stream, and a control folder that can be made to fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_stream_provider.control import ControlLog, FilesRoot, FilesStore
from chaos.clock import Clocks
from chaos.store_faults import ControlFolder
from demo.environment import DemoEnvironment, create_topics, lay_out
from devstack.airflow_api import AirflowApi
from devstack.stack import LocalStack

ROOT = Path(__file__).parents[1]
UPGRADE_DAG, BACK_DAG = "orders__upgrade", "orders__back"
WORKERS, WORKER_CORES = 2, 9
# Short, so that an hour reaches much; a user could have the same.
CHANGES: Mapping[str, Any] = {
    "upgrade": {
        "soak": "15s",
        "keep_previous": "0s",
        "lease_seconds": 15,
        "pause_seconds": 30,
        "boundary_seconds": 30,
        "rehearse_batches": 1,
    },
    "watch": {"schedule": "20s"},
    # Not by seconds: a rehearsal that a fault has slowed down would be judged by them, too.
    "lag": {"max_records": 2500, "max_seconds": None},
}
# The bad release is found out sooner than the demo's, also on a machine with nothing else to do: each of its batches
# takes six times as long as its orders took to come, so that its lag is beyond the limit before the soak is over.
QUICKLY_THROTTLED = {"QUOTA = 5000": "QUOTA = 300", "THROTTLED_SECONDS = 0.006": "THROTTLED_SECONDS = 0.03"}
# Where that release has a backlog, a batch takes a minute, and not so long that the stream counts as standing still.
SHORT_BATCHES = {'"maxOffsetsPerTrigger", 10_000': '"maxOffsetsPerTrigger", 2_000'}


@dataclass(frozen=True)
class World:
    """The running stack, and the stream on it.

    :param stack: Kafka, Spark with two workers, and Airflow.
    :param log: the control log, by a path that no fault reaches. Not thread-safe: see `open_log`.
    :param brokers: bootstrap servers of Kafka.
    :param checkpoints: the folder of each query's checkpoint, by name of the query.
    :param folder: everything that the run writes.
    :param control: the control folder.
    :param clocks: of the Python processes.
    :param site: the stream and Airflow's API.
    """

    stack: LocalStack
    log: ControlLog
    brokers: str
    checkpoints: Mapping[str, Path]
    folder: Path
    control: ControlFolder
    clocks: Clocks
    site: DemoEnvironment

    @property
    def api(self) -> AirflowApi:
        """Airflow's API."""
        return self.site.airflow

    def open_log(self) -> ControlLog:
        """Return another control log by the same path, for another thread."""
        return safe_log(self.control, self.site.spec.name)


def safe_log(control: ControlFolder, stream: str) -> ControlLog:
    """Return the control log of a stream by the path that no fault reaches."""
    return ControlLog(FilesStore(control.safe / stream), stream)


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Yield the world, with no driver yet; everything ends with the block.

    What the control folder held is kept in `control/`, as its memory goes with the run.

    :param folder: for everything that the run writes; emptied.
    """
    folder = folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    dags, data = folder / "dags", folder / "data"
    dags.mkdir(parents=True)
    control = ControlFolder(data / "streams", folder / "safe", folder / "elsewhere")
    control.mount()
    clocks = Clocks(folder / "clocks")
    os.environ.update(clocks.environment())
    try:
        with LocalStack(folder / "stack", dags_folder=dags, workers=WORKERS, worker_cores=WORKER_CORES) as stack:
            # One executor each: on two cores the start of more takes longer than all else.
            changes = {**CHANGES, "conf": {**stack.spark.conf, "spark.cores.max": "1"}}
            lay_out(ROOT / "dags", dags, brokers=stack.bootstrap_servers, data=data, changes=changes)
            shutil.copy(ROOT / "chaos" / "dags" / "orders_back.py", dags)
            _change(dags / "apps" / "scoring.py", QUICKLY_THROTTLED)
            _change(dags / "apps" / "orders.py", SHORT_BATCHES)
            site = DemoEnvironment.at(dags, stack.airflow.api)
            create_topics(site.brokers)
            FilesRoot(site.spec.control).store(site.spec.name, create=True)
            log = safe_log(control, site.spec.name)
            yield World(stack, log, site.brokers, site.checkpoints, folder, control, clocks, site)
    finally:
        shutil.copytree(control.safe, folder / "control", dirs_exist_ok=True)


def _change(script: Path, changes: Mapping[str, str]) -> None:
    text = script.read_text()
    for before, after in changes.items():
        assert before in text, f"{script} has changed: {before} is missing"
        text = text.replace(before, after)
    script.write_text(text)
