"""What a run acts on: the whole stack, the example's stream, and where it keeps its control log and its files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.control import ControlLog, FilesRoot, FilesStore
from airflow_stream_provider.control.topic import topic_name
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_root import KafkaTopic, TopicRoot
from airflow_stream_provider.releases.address import StorageAddress
from chaos.clock import Clocks
from chaos.folder_log import FolderLog
from chaos.plan import FILES
from chaos.store_faults import Checkpoints, ControlFolder
from chaos.table import CHANGE, QUERY, VARIABLE
from chaos.table import server as table_server
from chaos.topic_copy import TopicCopy
from chaos.topic_log import TopicLog
from demo.environment import QUERIES, DemoEnvironment, create_topics, lay_out
from devstack.airflow_api import AirflowApi
from devstack.broker import Broker
from devstack.places import CONTROL_PREFIX, CONTROL_URL, FILE, Pair, Storage, open_storage, stream_settings
from devstack.stack import LocalStack

ROOT = Path(__file__).parents[1]
UPGRADE_DAG, OPERATE_DAG = "orders__upgrade", "orders__operate"
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
    :param log: the control log, which is recorded: in a folder by a path that no fault reaches.
    :param brokers: bootstrap servers of Kafka.
    :param checkpoints: the folder of each query's checkpoint, by name of the query.
    :param releases: the folder of the stream's releases.
    :param folder: everything that the run writes.
    :param control: the control folder; None: the control log is in Kafka.
    :param storage: where checkpoints and releases are.
    :param clocks: of the Python processes.
    :param site: the stream and Airflow's API.
    :param table: the database of the third query; empty: there is none.
    """

    stack: LocalStack
    log: FolderLog | TopicLog
    brokers: str
    checkpoints: Mapping[str, Place]
    releases: Place
    folder: Path
    control: ControlFolder | None
    storage: Storage
    clocks: Clocks
    site: DemoEnvironment
    table: str = ""

    @property
    def api(self) -> AirflowApi:
        """Airflow's API."""
        return self.site.airflow

    def moved_checkpoints(self) -> Checkpoints | None:
        """Return the checkpoints that can be moved away; None: they are not on this machine's disk."""
        here = [folder for folder in self.checkpoints.values() if isinstance(folder, Path)]
        return Checkpoints(here, self.folder / "aside") if here else None

    def open_log(self) -> ControlLog:
        """Return the control log for one thread, whom no fault of it lets wait."""
        store = FilesStore(self.log.folder) if isinstance(self.log, FolderLog) else TopicCopy(self.log)
        return ControlLog(store, self.site.spec.name)


@contextmanager
def world(folder: Path, pair: Pair = FILES, table: bool = False) -> Iterator[World]:
    """Yield the world, with no driver yet; everything ends with the block.

    What the control log held is kept in `control/`, as its folder is in memory, and the broker's data of no use alone.

    :param folder: for everything that the run writes; emptied.
    :param pair: where the stream keeps its control log and its files.
    :param table: whether a third query writes into PostgreSQL.
    """
    folder = folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    dags, data = folder / "dags", folder / "data"
    dags.mkdir(parents=True)
    clocks = Clocks(folder / "clocks")
    with (
        _control_folder(folder, data) if pair.control == FILE else nullcontext() as control,
        open_storage(pair.storage, data if pair.storage == FILE else folder / "storage") as storage,
        table_server(folder / "postgres") if table else nullcontext() as database,
    ):
        os.environ.update(clocks.environment())
        if database is not None:
            os.environ[VARIABLE] = database.dsn
        with LocalStack(
            folder / "stack",
            dags_folder=dags,
            variables=storage.variables,
            workers=WORKERS,
            worker_cores=WORKER_CORES,
            libraries=storage.libraries,
            core_site=storage.core_site,
        ) as stack:
            lay_out_stream(dags, data, pair.control, storage, stack.bootstrap_servers, stack.spark.conf)
            if table:
                _change(dags / "apps" / "orders.py", CHANGE)
            site = DemoEnvironment.at(dags, stack.airflow.api)
            create_topics(site.brokers)
            assert storage.folder is not None
            checkpoints = {
                query: storage.folder / "checkpoints" / "orders" / query
                for query in (*QUERIES, *([QUERY] if table else []))
            }
            with _log_in(control, site) if control else _log_in_kafka(stack.broker, site, folder) as (log, log_id):
                releases: Place
                if site.spec.storage:
                    part = StorageAddress.parse(site.spec.storage).of_log(site.spec.control, log_id)
                    name = PurePosixPath(part.path).name
                    releases = storage.folder / "releases" / name / site.spec.name / "releases"
                else:
                    assert log.folder is not None
                    releases = log.folder / "releases"
                dsn = database.dsn if database else ""
                yield World(
                    stack, log, site.brokers, checkpoints, releases, folder, control, storage, clocks, site, dsn
                )


def lay_out_stream(
    dags: Path, data: Path, control: str, storage: Storage, brokers: str, conf: Mapping[str, str]
) -> None:
    """Write the DAG folder of the world, whose example stream is changed to use it; nothing need run for that.

    :param data: folder of the stream.
    :param brokers: bootstrap servers of Kafka.
    :param conf: Spark conf that the cluster needs.
    """
    changes = {
        **CHANGES,
        # One executor each: on two cores the start of more takes longer than all else.
        "conf": {**conf, "spark.cores.max": "1"},
        **stream_settings(control, storage, brokers, data),
    }
    lay_out(ROOT / "dags", dags, brokers=brokers, data=data, changes=changes)
    _change(dags / "apps" / "scoring.py", QUICKLY_THROTTLED)
    _change(dags / "apps" / "orders.py", SHORT_BATCHES)


@contextmanager
def _control_folder(folder: Path, data: Path) -> Iterator[ControlFolder]:
    control = ControlFolder(data / "streams", folder / "safe", folder / "elsewhere")
    control.mount()
    try:
        yield control
    finally:
        shutil.copytree(control.safe, folder / "control", dirs_exist_ok=True)


@contextmanager
def _log_in(control: ControlFolder, site: DemoEnvironment) -> Iterator[tuple[FolderLog, str]]:
    root, name = FilesRoot(site.spec.control), site.spec.name
    root.store(name, create=True)
    yield FolderLog(control.safe / name), root.log_id(name)


@contextmanager
def _log_in_kafka(broker: Broker, site: DemoEnvironment, folder: Path) -> Iterator[tuple[TopicLog, str]]:
    name, extra = site.spec.name, broker.connection["extra"]
    with closing(TopicRoot(CONTROL_URL, "chaos", extra, CONTROL_PREFIX)) as root:
        root.make()
        root.store(name, create=True)
        log_id = root.log_id(name)
    with KafkaClient("chaos", extra) as client:
        topic = KafkaTopic(lambda: client, "chaos", topic_name(CONTROL_PREFIX, name))
        with TopicLog(topic, name) as log:
            try:
                yield log, log_id
            finally:
                log.write(folder / "control" / f"{name}.jsonl")


def _change(script: Path, changes: Mapping[str, str]) -> None:
    text = script.read_text()
    for before, after in changes.items():
        assert before in text, f"{script} has changed: {before} is missing"
        text = text.replace(before, after)
    script.write_text(text)
