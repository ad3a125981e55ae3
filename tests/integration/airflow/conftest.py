"""A real Airflow on a migrated SQLite, a real control log, real processes; only Spark itself is not there."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devstack.airflow import empty_database
from devstack.processes import Processes
from tests.support.airflow_world import Airflow, World

ROOT = Path(__file__).parents[3]
DAG_FILE = "from airflow_stream_provider import stream_dags\n\nglobals().update(stream_dags('streams/'))\n"
BY_HAND = """\
from pathlib import Path
from airflow.sdk import DAG
from tests.support.by_hand import by_hand_dags

globals().update(by_hand_dags(Path(__file__).parent / "streams"))
"""


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a migrated database, to be copied."""
    processes = Processes(tmp_path_factory.mktemp("database"))
    try:
        return empty_database(processes)
    finally:
        processes.close()


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Iterator[Airflow]:
    """An Airflow with an empty database and the three lines of DAG code that a user writes."""
    home = tmp_path_factory.mktemp("airflow")
    for name in ("streams", "apps"):
        (home / "dags" / name).mkdir(parents=True)
    (home / "dags" / "streams.py").write_text(DAG_FILE)
    (home / "dags" / "by_hand.py").write_text(BY_HAND)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW_", "AIRFLOW__"))}
    environment = {
        **clean,
        "AIRFLOW_HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW_CONN_SPARK_HERE": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "AIRFLOW_CONN_KAFKA_NOWHERE": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}),
        "AIRFLOW_CONN_SPARK_NOWHERE": json.dumps(
            {"conn_type": "spark", "host": "spark://127.0.0.1", "port": 1, "extra": {"rest_port": 1}}
        ),
        "PYTHONPATH": str(ROOT),
    }
    shutil.copy(database, home)
    running = Airflow([sys.executable, "-m", "tests.integration.airflow.worker"], environment, home / "worker.log")
    try:
        yield running
    finally:
        running.end()


@pytest.fixture
def make_world(airflow: Airflow, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(**settings: str) -> World:
        name = f"s{abs(hash(request.node.name)) % 10**8}"
        made.append(World(airflow, tmp_path, name, **settings))
        return made[-1]

    yield make
    for world in made:
        world.end()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()
