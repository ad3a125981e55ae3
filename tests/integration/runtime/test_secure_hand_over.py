"""Real drivers whose control log is behind TLS, passwords and ACLs, as docs/control.md has them; who sees a secret."""

from __future__ import annotations

import contextlib
import itertools
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil
import pytest

from airflow_stream_provider.control.topic import read_all
from airflow_stream_provider.kafka.control_root import KafkaTopic, TopicRoot
from airflow_stream_provider.runtime.places import PROPERTIES
from devstack.certificates import Certificates
from devstack.drivers import HandRunStream, SubmittedDriver, wait_for
from devstack.kafka_cluster import USERS, KafkaCluster
from devstack.kafka_tools import KafkaTools
from tests.support.hand_run import end, reads_kafka
from tests.support.jvm_drivers import Driver
from tests.support.orders_files import Orders

PAGE = (Path(__file__).parents[3] / "docs" / "control.md").read_text()
APP = Path(__file__).parents[2] / "support" / "app_orders_files.py"
SECRETS = (USERS["airflow"], USERS["streams"])
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[KafkaCluster]:
    """A broker that knows the users `airflow` and `streams`, with the rights that the page's commands give them."""
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), secure=certificates) as brokers:
        tools = KafkaTools(tmp_path_factory.mktemp("tools") / "bin")
        commands = re.findall(r"^kafka-acls\.sh (?:.*\\\n)*.*$", PAGE, re.M)
        assert [re.findall("User:([a-z]+)", each) for each in commands] == [["airflow"], ["streams"]]
        for each in commands:
            tools.run(each.replace("k1:9092", brokers.servers))
        yield brokers


@pytest.fixture
def stream(tmp_path: Path, kafka: KafkaCluster, certificates: Certificates) -> Iterator[HandRunStream]:
    """A stream of Airflow's own user; its drivers have Kafka's client from `spark.jars`, as the page says."""
    connection = {
        "bootstrap.servers": kafka.at("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificates.authority),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "airflow",
        "sasl.password": USERS["airflow"],
    }
    prefix = f"streams.{next(_numbers)}"
    root = TopicRoot(f"kafka://kafka_control/{prefix}", "kafka_control", connection, prefix)
    with reads_kafka(tmp_path / "run", root) as found:
        yield found
    root.close()


@pytest.fixture
def log_in(tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes the page's file, for the drivers that start from now on."""

    def write(user: str, password: str) -> Path:
        (text,) = re.findall(r"^```properties\n(.*?)^```", PAGE, re.M | re.S)
        here = {"/etc/streams/ca.pem": str(certificates.authority), '"streams"': f'"{user}"', "…": password}
        for said, instead in here.items():
            assert said in text
            text = text.replace(said, instead)
        path = tmp_path / f"{user}.properties"
        path.write_text(text, "utf-8")
        monkeypatch.setenv(PROPERTIES, str(path))
        return path

    return write


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_a_driver_without_a_file_of_settings_is_told_of_it(kafka: KafkaCluster, listener: str) -> None:
    with contextlib.closing(Driver(kafka.at(listener), "streams.orders", "open.seconds=0")) as started:
        said = started.says()
    assert said.startswith("ControlUnavailable: ")
    assert f"{kafka.at(listener)} cannot be used now: no broker has answered, and the driver asks without TLS" in said
    assert f"name it by {PROPERTIES} in `environment`" in said


def processes(drivers: Iterable[SubmittedDriver]) -> list[str]:
    """The arguments and the environment of each process of these drivers."""
    found = []
    for process in itertools.chain.from_iterable(driver.tree() for driver in drivers):
        try:
            found.append(f"{process.cmdline()} {process.environ()}")
        except psutil.NoSuchProcess:  # a worker of Python that has ended meanwhile
            continue
    return found


def messages(kafka: KafkaCluster, stream: HandRunStream) -> list[str]:
    """All that is in the topics of a stream and of its control root: records, heartbeats, and what else there is."""
    found: list[str] = []
    prefix = stream.url.rpartition("/")[2]
    with kafka.client() as client:
        for name in (f"{prefix}._root", f"{prefix}.{stream.stream}"):
            read_all(KafkaTopic(lambda: client, "test", name), 0, lambda new: found.extend(map(str, new)))
    return found


def files(folder: Path) -> dict[Path, str]:
    """The texts of all files below a folder, also in archives."""
    found = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for path in [path for path in found if path.suffix == ".zip"]:
        with zipfile.ZipFile(path) as archive:
            found.update({path / name: archive.read(name) for name in archive.namelist()})
    return {path: content.decode("utf-8", "replace") for path, content in found.items()}


def with_secret(texts: Iterable[str]) -> list[str]:
    return [text for text in texts if any(secret in text for secret in SECRETS)]


@pytest.mark.system  # `make test-integration` hands over through a topic without credentials
def test_a_stream_is_handed_over_back_and_stopped_by_users_with_the_rights_of_the_page_and_nobody_sees_a_secret(
    stream: HandRunStream, orders: Orders, kafka: KafkaCluster, log_in: Callable[..., Path]
) -> None:
    own = log_in("streams", USERS["streams"])
    orders.flow(1.0)
    stream.deploy("orders-1", APP, str(orders.root))
    one = stream.standby("orders-1")
    stream.hand_over(one)
    wait_for("the first orders", lambda: len(orders.delivered()) > 50)
    stream.deploy("orders-2", APP, str(orders.root))
    two = stream.standby("orders-2")
    seen = processes(stream.drivers)
    for to in (two, one):
        stream.hand_over(to)
        orders.go_on("orders by the next")
    seen += processes(stream.drivers)
    end(stream, orders)

    # The search finds what is there: in the drivers' own file it is.
    assert with_secret([own.read_text("utf-8")])
    assert sum(str(own) in text for text in seen) >= 4
    assert with_secret(seen) == []
    for driver in stream.drivers:
        assert "sasl.jaas.config = [hidden]" in driver.log()
    written = messages(kafka, stream)
    assert sum("heartbeat/" in text for text in written) > 10
    assert sum("record/" in text for text in written) >= len(stream.log.records())
    assert with_secret(written) == []
    # The logs of the drivers, what they left in their folders, the releases with the runtime's zip, the checkpoints.
    kept = {**files(stream.root), **files(orders.root / "checkpoints")}
    assert {driver.output for driver in stream.drivers} <= kept.keys()
    assert any(path.name == APP.name for path in kept)
    assert [path for path, text in kept.items() if with_secret([text])] == []


def test_a_driver_that_kafka_refuses_ends_and_says_what_to_do(
    stream: HandRunStream, orders: Orders, log_in: Callable[..., Path]
) -> None:
    orders.write()
    started: list[tuple[SubmittedDriver, str, str]] = []
    for user, password, sentence in (
        (
            "streams",
            "wrong-hunter2",
            "Kafka refuses the driver's credentials: SaslAuthenticationException. Correct user, password",
        ),
        ("reader", USERS["reader"], "the driver's user may not use it: TopicAuthorizationException. Grant READ, WRITE"),
    ):
        log_in(user, password)
        started.append((stream.deploy(f"orders-{user}", APP, str(orders.root)), sentence, password))
    for driver, sentence, password in started:
        assert driver.exit_code() != 0
        assert sentence in driver.log()
        assert password not in driver.log()
    assert stream.state.incarnations == {}
    assert not orders.delivered()
