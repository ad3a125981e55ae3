from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from airflow_stream_provider.sinks.cassandra import Cassandra
from airflow_stream_provider.sinks.sql_database import SqlDatabase
from devstack import cassandra, mariadb, postgres
from devstack.kafka_cluster import KafkaCluster
from devstack.mariadb import MariaDBServer
from devstack.postgres import PostgresServer
from devstack.processes import Processes
from tests.support.cassandra_in_hand import Shop, keyspace, upserted
from tests.support.kafka_sink import Bus
from tests.support.lakes import lake_session
from tests.support.one_broker import kafka
from tests.support.rows_in_hand import copied
from tests.support.sql_places import SqlPlace

__all__ = ["kafka"]
KINDS = (pytest.param("postgres", marks=pytest.mark.quick), pytest.param("mariadb", marks=pytest.mark.system))


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    processes = Processes(tmp_path_factory.mktemp("servers"))
    yield processes
    processes.close()


@pytest.fixture(scope="module")
def server(processes: Processes) -> PostgresServer:
    """A PostgreSQL of the module's own."""
    if why := postgres.missing():
        pytest.skip(f"left out: the sinks for PostgreSQL. {why}")
    server = PostgresServer(processes.logs / "postgres", processes)
    server.start()
    return server


@pytest.fixture(scope="module")
def mariadb_server(processes: Processes) -> MariaDBServer:
    """A MariaDB of the module's own."""
    if why := mariadb.missing():
        pytest.skip(f"left out: the sinks for MariaDB. {why}")
    server = MariaDBServer(processes.logs / "mariadb", processes)
    server.start()
    return server


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> SqlPlace:
    """A database of this test's own, in each kind of server."""
    name = f"t{uuid.uuid4().hex}"
    if request.param == "postgres":
        dsn = request.getfixturevalue("server").dsn
        found, address = SqlPlace("postgres", dsn), dsn.replace("dbname=postgres", f"dbname={name}")
    else:
        made = request.getfixturevalue("mariadb_server")
        found, address = SqlPlace("mariadb", made.url()), made.url(name)
    found.run(f"create database {name}")
    return replace(found, address=address)


@pytest.fixture
def orders(place: SqlPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty table there, and rows of a batch that are copied without Spark."""
    place.run("create table orders (id bigint not null, name text)")
    monkeypatch.setattr(SqlDatabase, "copy", copied)


@pytest.fixture
def maria(mariadb_server: MariaDBServer) -> SqlPlace:
    """A database of this test's own in MariaDB."""
    name = f"t{uuid.uuid4().hex}"
    SqlPlace("mariadb", mariadb_server.url()).run(f"create database {name}")
    return SqlPlace("mariadb", mariadb_server.url(name))


@pytest.fixture
def bus(kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    """A topic and ledgers of this test's own in the module's Kafka."""
    found = Bus(kafka, monkeypatch)
    yield found
    for each in found.made:
        each.close()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cassandra.CassandraNode]:
    """A Cassandra for all tests that need one."""
    if why := cassandra.missing():
        pytest.skip(f"left out: the sink for Cassandra. {why}")
    folder = tmp_path_factory.mktemp("cassandra")
    processes = Processes(folder)
    try:
        node = cassandra.CassandraNode(folder / "node", processes)
        node.start()
        yield node
    finally:
        processes.close()


@pytest.fixture
def shop(node: cassandra.CassandraNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A keyspace with ledgers of this test's own in Cassandra, and rows of a batch that are written without Spark."""
    monkeypatch.setattr(Cassandra, "upsert", upserted)
    with keyspace(node) as opened:
        found = Shop(*opened)
        yield found
        for each in found.made:
            each.close()


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark with Delta and Iceberg of the module's own."""
    with lake_session(tmp_path_factory.mktemp("lakes")) as session:
        yield session
