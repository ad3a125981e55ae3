"""Run several Kafka brokers for tests, with listeners for TLS and SASL, and with ACLs."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.connect import BrokerUnreachable
from devstack.broker import CLUSTER_ID, JVM, START_SECONDS
from devstack.certificates import Certificates
from devstack.drivers import DEADLINE, wait_for
from devstack.jars import fetch, kafka_broker
from devstack.ports import HOST, free_port, listening
from devstack.processes import Process, Processes, java, stop

CLIENT_SECONDS = 120.0
# Short intervals, so that tests wait for seconds and not for minutes.
SHORT_INTERVALS = {
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 200,
    "log.cleaner.backoff.ms": 200,
    "log.segment.delete.delay.ms": 100,
    "broker.session.timeout.ms": 6000,
    "broker.heartbeat.interval.ms": 1000,
}


class KafkaCluster:
    """A cluster of brokers with ids from 1. The first ones are also its controllers.

    `Broker`, in contrast, is the single broker of the local stack.

    :param folder: folder for settings, data and logs.
    :param count: number of brokers; default 1.
    :param settings: settings of every broker, in place of the defaults here.
    :param secure: certificates. With them every broker also has a TLS and a SASL_SSL listener, and checks ACLs for all
        clients except those on the plain listener. Default: only the plain listener, no ACLs.
    :param heap: largest heap of each broker, in Java's notation.
    :param controllers: how many of the brokers are also controllers; default 1. With 3, any broker may fail.
    :param cluster_id: Kafka's id of the cluster, 16 bytes in Base64; default: that of every cluster of the local stack.
    """

    def __init__(
        self,
        folder: Path,
        count: int = 1,
        settings: Mapping[str, Any] | None = None,
        secure: Certificates | None = None,
        heap: str = "384m",
        controllers: int = 1,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        self._id = cluster_id
        self.numbers = range(1, count + 1)
        self._folder = folder
        self._processes = Processes(folder / "logs")
        self._ports = {(kind, n): free_port() for kind in ("PLAINTEXT", "SSL", "SASL_SSL") for n in self.numbers}
        self._controllers = {n: f"{HOST}:{free_port()}" for n in range(1, controllers + 1)}
        self._extra = {**SHORT_INTERVALS, **(settings or {})}
        self._secure = secure
        self._heap = heap
        self._running: dict[int, Process] = {}

    def __enter__(self) -> KafkaCluster:
        try:
            for number in self.numbers:
                self._launch(number, fresh=True)
            for number in self.numbers:
                self._wait_for(number)  # one needs most of the controllers
            self.wait(lambda: self._seen() == len(self.numbers))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all brokers."""
        self._processes.close()

    @property
    def servers(self) -> str:
        """The plain listeners of all brokers, as bootstrap servers."""
        return self.at("PLAINTEXT")

    @property
    def extra(self) -> dict[str, Any]:
        """The extra of an Airflow connection to the plain listeners."""
        return {"bootstrap.servers": self.servers}

    def at(self, listener: str) -> str:
        """Return the addresses of one kind of listener.

        :param listener: ``PLAINTEXT``, ``SSL`` or ``SASL_SSL``.
        """
        return ",".join(f"{HOST}:{self._ports[listener, n]}" for n in self.numbers)

    def client(self) -> KafkaClient:
        """Return a client without restrictions by ACLs."""
        return patient_client("test", self.extra)

    def start(self, number: int, *, fresh: bool = False) -> None:
        """Start a broker and wait until its port is open.

        :param number: id of the broker.
        :param fresh: format its storage first; default False: it keeps its data.
        """
        self._launch(number, fresh)
        self._wait_for(number)

    def _launch(self, number: int, fresh: bool) -> None:
        folder = self._folder / f"broker-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self._settings(number).items()))
        command = [java(), *JVM, f"-Xmx{self._heap}", "-cp", f"{fetch(kafka_broker())}/*"]
        if fresh:
            format_it = [
                *command,
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                self._id,
                "--config",
                str(path),
            ]
            users = [
                f"--add-scram=SCRAM-SHA-{bits}=[name={name},password={password}]"
                for bits in (256, 512)
                for name, password in (USERS if self._secure else {}).items()
            ]
            self._processes.run(
                f"format-{number}",
                [*format_it, *users],
                env={},
                folder=folder,
                seconds=START_SECONDS,
            )
        process = self._processes.start(f"kafka-{number}", [*command, "kafka.Kafka", str(path)], env={}, folder=folder)
        self._running[number] = process

    def _wait_for(self, number: int) -> None:
        port = self._ports["PLAINTEXT", number]
        self._processes.wait_for(f"broker {number}", lambda: listening(port), START_SECONDS, self._running[number])

    def pid(self, number: int) -> int:
        """Return the process id of a running broker."""
        return self._running[number].pid

    def ended(self, number: int) -> bool:
        """Whether a broker has ended by itself."""
        return not self._running[number].alive

    def stop(self, number: int) -> None:
        """Stop one broker."""
        stop(self._running.pop(number))

    def kill(self, number: int) -> None:
        """Kill one broker, which writes nothing more to its disk."""
        killed = self._running.pop(number)
        killed.signal(signal.SIGKILL)
        killed.popen.wait()

    def freeze(self, number: int) -> None:
        """Stop a broker's threads, as a machine that swaps does; its connections stay open."""
        self._running[number].signal(signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """Let a frozen broker go on."""
        self._running[number].signal(signal.SIGCONT)

    def data(self, number: int) -> Path:
        """Return the folder in which a broker keeps its topics."""
        return self._folder / f"broker-{number}" / "data"

    @staticmethod
    def wait(true: Callable[[], object], seconds: float = DEADLINE) -> None:
        """Wait until a condition is true.

        :raises AssertionError: it is not true after `seconds`, by default 600.
        """
        wait_for("the condition", true, seconds)

    def _seen(self) -> int:
        with contextlib.suppress(BrokerUnreachable), KafkaClient("test", self.extra) as client:
            return sum(not broker["is_fenced"] for broker in client.describe_cluster()["brokers"])
        return 0

    def _settings(self, number: int) -> dict[str, object]:
        kinds = ("PLAINTEXT", "SSL", "SASL_SSL") if self._secure else ("PLAINTEXT",)
        addresses = [f"{kind}://{HOST}:{self._ports[kind, number]}" for kind in kinds]
        own = [f"CONTROLLER://{self._controllers[number]}"] if number in self._controllers else []
        return {
            "process.roles": "broker,controller" if own else "broker",
            "node.id": number,
            "controller.quorum.voters": ",".join(f"{n}@{address}" for n, address in self._controllers.items()),
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*addresses, *own]),
            "advertised.listeners": ",".join(addresses),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.data(number),
            # On, so that tests see when a read creates a topic.
            "auto.create.topics.enable": "true",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            **(_security(self._secure) if self._secure else {}),
            **self._extra,
        }


def patient_client(conn_id: str, extra: Mapping[str, Any]) -> KafkaClient:
    """Return a client of brokers that run: on a busy machine they may not answer as soon as a task needs it.

    :param conn_id: id of the connection, for error messages.
    :param extra: the connection's extra.
    :raises BrokerUnreachable: none of them answers for two minutes.
    """
    until = time.monotonic() + CLIENT_SECONDS
    while True:
        try:
            return KafkaClient(conn_id, extra)
        except BrokerUnreachable:
            if time.monotonic() > until:
                raise


# The last two are those of docs/control.md.
USERS = {name: f"{name}-hunter2" for name in ("admin", "reader", "airflow", "streams")}


def _security(certificates: Certificates) -> dict[str, object]:
    plain = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    modules = {
        "plain": f"plain.PlainLoginModule required {plain}",
        "scram-sha-256": "scram.ScramLoginModule required",
        "scram-sha-512": "scram.ScramLoginModule required",
        "oauthbearer": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"',
    }
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.broker,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        **{
            f"listener.name.sasl_ssl.{mechanism}.sasl.jaas.config": f"org.apache.kafka.common.security.{module};"
            for mechanism, module in modules.items()
        },
    }
