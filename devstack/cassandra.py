"""Run one Cassandra node, as a part of the local stack."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

from devstack.errors import StackError
from devstack.jars import cassandra, fetch
from devstack.ports import HOST, free_port, listening
from devstack.processes import Process, Processes, java

START_SECONDS = 600.0
# What this Cassandra was built for.
JAVA = ("11", "17")
# What it reaches into, by its own conf/jvm17-server.options.
EXPORTS = """java.base/jdk.internal.misc java.base/java.lang.ref java.sql/java.sql java.rmi/sun.rmi.registry
    java.rmi/sun.rmi.server java.management.rmi/com.sun.jmx.remote.internal.rmi jdk.attach/sun.tools.attach
    jdk.unsupported/sun.misc"""
OPENS = """java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.lang.reflect
    java.base/java.nio java.base/java.util java.base/jdk.internal.loader java.base/jdk.internal.math
    java.base/jdk.internal.module java.base/jdk.internal.ref java.base/jdk.internal.reflect
    java.base/jdk.internal.util.jar java.base/sun.nio.ch jdk.management/com.sun.management.internal"""
JVM = (
    *("-Xms384m", "-Xmx384m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *(word for package in EXPORTS.split() for word in ("--add-exports", f"{package}=ALL-UNNAMED")),
    *(word for package in OPENS.split() for word in ("--add-opens", f"{package}=ALL-UNNAMED")),
    *("-Djdk.attach.allowAttachSelf=true", "-Dio.netty.tryReflectionSetAccessible=true"),
    "-Djava.net.preferIPv4Stack=true",
    # Nobody to gossip with.
    *("-Dcassandra.ring_delay_ms=100", "-Dcassandra.skip_wait_for_gossip_to_settle=0"),
    *("-Dcassandra.initial_token=0", "-Dcassandra.superuser_setup_delay_ms=0"),
)
# Its own time-outs are of a machine with less to do.
SETTINGS = """
cluster_name: streams
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: {host}
rpc_address: {host}
storage_port: {storage}
native_transport_port: {port}
authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
role_manager: CassandraRoleManager
commitlog_sync: periodic
commitlog_sync_period: 10000ms
commitlog_segment_size: 8MiB
commitlog_total_space: 64MiB
memtable_heap_space: 64MiB
memtable_offheap_space: 32MiB
file_cache_size: 32MiB
key_cache_size: 4MiB
concurrent_reads: 8
concurrent_writes: 8
auto_snapshot: false
read_request_timeout: 20s
write_request_timeout: 20s
request_timeout: 30s
cas_contention_timeout: 20s
data_file_directories: [{folder}/data]
commitlog_directory: {folder}/commitlog
saved_caches_directory: {folder}/caches
hints_directory: {folder}/hints
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: "{host}:{storage}"}}]
"""
LOGGING = """<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%d %-5level %logger{20} %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="out"/></root></configuration>
"""


class CassandraNode:
    """A cluster of one node on free ports of the loopback address, with one keyspace. Its data is deleted at the start.

    :param folder: for its data; emptied at the start.
    :param processes: where its process is started.
    """

    keyspace = "shop"
    # Those that a new node knows.
    user = password = "cassandra"

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"cassandra://{self.user}:{self.password}@{HOST}:{self.port}/{self.keyspace}"
        self.process: Process | None = None
        self._processes = processes

    def start(self) -> None:
        """Fetch missing jars, start the node, wait until it serves clients, and create the keyspace.

        :raises StackError: Java or a jar is missing, or it did not start within 600 s.
        """
        program, jars = java(), fetch(cassandra())
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        settings = SETTINGS.format(host=HOST, port=self.port, storage=free_port(), folder=self.folder)
        (self.folder / "cassandra.yaml").write_text(settings)
        (self.folder / "logback.xml").write_text(LOGGING)
        (agent,) = jars.glob("jamm-*.jar")
        command = [program, *JVM, f"-javaagent:{agent}", f"-Dcassandra.storagedir={self.folder}"]
        command += [f"-Dcassandra.config=file://{self.folder}/cassandra.yaml"]
        command += [f"-Dlogback.configurationFile=file:{self.folder}/logback.xml"]
        command += ["-cp", f"{jars}/*", "org.apache.cassandra.service.CassandraDaemon"]
        self.process = self._processes.start("cassandra", command, env={}, folder=self.folder)
        self._processes.wait_for("Cassandra to serve clients", self._serves, START_SECONDS, self.process)

    def _serves(self) -> bool:
        if not listening(self.port):
            return False
        from cassandra.auth import PlainTextAuthProvider
        from cassandra.cluster import Cluster, NoHostAvailable

        who = PlainTextAuthProvider(self.user, self.password)
        cluster = Cluster([HOST], port=self.port, auth_provider=who, connect_timeout=30, protocol_version=5)
        try:
            # It makes its first user after it listens.
            cluster.connect().execute(
                f"create keyspace if not exists {self.keyspace} "
                "with replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                timeout=60,
            )
        except NoHostAvailable:
            return False
        finally:
            cluster.shutdown()
        return True


def missing() -> str:
    """Return why no Cassandra can run here; empty: one can."""
    try:
        said = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False).stderr
        found = re.search(r'version "(\d+)', said)
        if found is None or found.group(1) not in JAVA:
            return f"Cassandra runs on Java {' or '.join(JAVA)}, and here is another one."
        fetch(cassandra())
    except StackError as error:
        return str(error)
    return "" if importlib.util.find_spec("cassandra") else "The module cassandra-driver is missing."
