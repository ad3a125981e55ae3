"""Real drivers whose checkpoints are on S3A: a hand-over; two writers; and what is refused beside a holder."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import pyspark
import pytest

from airflow_stream_provider.clusters import ClusterConnection, DriverState, open_cluster, status_of
from airflow_stream_provider.control import FilesRoot
from airflow_stream_provider.control.releases import LAUNCHER, make_release
from airflow_stream_provider.hooks.submit import job_of
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.releases.open_place import address_of, open_place
from airflow_stream_provider.runtime.refused import SETTING, SWALLOWS
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from devstack.jars import fetch, spark_s3a
from devstack.s3 import BUCKET, S3Server, moto
from tests.support.hand_run import hand_over_and_back, show
from tests.support.orders_files import Orders
from tests.support.places import SMALL
from tests.support.releases import connection_of, release_of
from tests.support.s3_rights import EVERYTHING, READ, check_rights, with_rights

APP = Path(__file__).parents[2] / "support" / "app_orders_files.py"
COUNTS = Path(__file__).with_name("scripts") / "counts.py"
RELEASES = f"s3a://{BUCKET}/releases"
FILE_SYSTEM = "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
pytestmark = pytest.mark.system  # they take some minutes


@dataclass(frozen=True)
class Running:
    """A stream that runs well on S3A, and the users of its server by what they may do."""

    stream: HandRunStream
    orders: Orders
    users: Mapping[str, S3Server]
    jars: Mapping[str, str]
    checkpoints: str

    def conf_of(self, user: str) -> dict[str, str]:
        """Spark's conf of a driver that is this user of the bucket."""
        core_site = self.users[user].core_site
        return {**self.jars, **{f"spark.hadoop.{name}": value for name, value in core_site.items()}}

    @contextlib.contextmanager
    def untouched(self) -> Iterator[None]:
        """Insist that the holder is the same before and after, and goes on."""
        state = self.stream.state
        before = state.holder, state.epoch, len(self.stream.records("released"))
        yield
        state = self.stream.state
        assert (state.holder, state.epoch, len(self.stream.records("released"))) == before
        self.orders.go_on("orders by the holder")

    def refused(self, name: str, conf: Mapping[str, str], checkpoints: str) -> str:
        """Deploy a release that is refused, and return why."""
        self.stream.spark_conf = dict(conf)
        driver = self.stream.deploy(name, APP, str(self.orders.root), "1", checkpoints)
        assert driver.exit_code() != 0
        (record,) = [record for record in self.stream.records("failed") if record["deployment"] == name]
        return f"{record['reason']} {record['error']}"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    pytest.importorskip("moto", reason="moto, which stands for S3, is not installed")
    root = tmp_path_factory.mktemp("running")
    orders = Orders(root)
    jars = f"{fetch(spark_s3a(Path(str(pyspark.__file__)).parent))}/*"
    with moto(root) as server, hand_run_stream(root) as stream:
        users = {
            "all": with_rights(server, *EVERYTHING),
            "read": with_rights(server, *READ),
            "nothing": with_rights(server),
            "launcher": with_rights(server, "s3:GetObject", to=f"arn:aws:s3:::{BUCKET}/releases/*/{LAUNCHER}"),
        }
        users["unknown"] = replace(users["all"], login="AKIAIOSFODNN7EXAMPLE")
        check_rights(server)
        made = Running(
            stream, orders, users, {"spark.driver.extraClassPath": jars}, f"s3a://{BUCKET}/checkpoints/{root.name}"
        )
        stream.spark_conf = made.conf_of("all")
        orders.flow()
        stream.deploy("orders-1", APP, str(root), "1", made.checkpoints)
        stream.hand_over(stream.standby("orders-1"))
        wait_for("the first orders", lambda: len(orders.delivered()) > 100)
        yield made
        orders.dry()
        show(stream)


def test_a_stream_is_handed_over_and_back(running: Running) -> None:
    """Between releases with Spark's two file managers."""
    stream, orders = running.stream, running.orders
    one = str(stream.state.holder)
    stream.spark_conf = {**running.conf_of("all"), SETTING: FILE_SYSTEM}
    second = stream.deploy("orders-2", APP, str(orders.root), "1", f"{running.checkpoints}//")
    hand_over_and_back(stream, orders, one, "orders-2")
    assert [r["boundary"] for r in stream.records("released")] == ["completed"] * 2
    assert [r["epoch"] for r in stream.records("acquired")] == [1, 2, 3]
    stream.append("retired", deployment="orders-2", reason="test")
    assert second.exit_code() == 0
    orders.dry()
    orders.check()
    orders.flow()


@pytest.mark.parametrize("user", ["read", "nothing", "unknown"])
def test_a_driver_without_rights_on_the_checkpoint_is_refused(running: Running, user: str) -> None:
    with running.untouched():
        says = running.refused(f"orders-{user}", running.conf_of(user), running.checkpoints)
    assert f"The checkpoint {running.checkpoints}/" in says
    assert " is not writable: AccessDeniedException: " in says
    assert "403" in says
    assert "Give the driver's user write access, or choose another checkpointLocation." in says
    assert running.users[user].password not in says


def test_a_checkpoint_on_another_file_system_than_before_is_refused(running: Running) -> None:
    moved = running.orders.root / "moved"
    with running.untouched():
        says = running.refused("orders-moved", running.conf_of("all"), str(moved))
    for query in ("lines", "totals"):
        assert (
            f"The query {query} has its checkpoint on another file system than before: on file: ({moved}/{query}) "
            f"instead of s3a://{BUCKET} ({running.checkpoints}/{query})." in says
        )
    assert "Put the former URL back" in says
    assert not moved.exists()


def test_the_manager_for_which_a_refused_write_is_a_done_one_is_refused(running: Running) -> None:
    """On S3A it would run, and take no rename."""
    conf = {**running.conf_of("all"), SETTING: f"org.apache.spark.internal.io.cloud.{SWALLOWS}"}
    with running.untouched():
        says = running.refused("orders-swallows", conf, running.checkpoints)
    assert f" cannot run with {SWALLOWS}: when the storage refuses to take a batch's offsets" in says


@pytest.mark.parametrize(
    ("user", "says"),
    [
        # Spark itself fetches the launcher.
        ("nothing", f"AccessDeniedException: {RELEASES}/"),
        ("launcher", "cannot be fetched: java.nio.file.AccessDeniedException: "),
    ],
)
def test_a_driver_that_may_not_read_its_release_ends_and_says_so(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, says: str
) -> None:
    stream, folder = running.stream, running.stream.folder
    arguments = [str(running.orders.root), "1", running.checkpoints]
    release, files = make_release(version=user, application=APP, arguments=arguments, conf={**SMALL, **running.jars})
    release = replace(release, storage=RELEASES)
    open_place(RELEASES, connection_of(running.users["all"].connection), "orders", folder).publish(release, files)
    write_core_site(tmp_path, running.users[user])
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    deployment = f"orders-fetched-{user}"
    stream.append(
        "declared", deployment=deployment, release=release.to_json(), policy=Policy(rehearse_batches=0).to_json()
    )
    cluster = open_cluster(ClusterConnection("local[1]"))
    job = job_of(stream.control, "orders", folder, deployment, release, address_of(release, "orders", folder))
    with running.untouched():
        submission = cluster.submit(job)
        wait_for("the driver's end", lambda: status_of(cluster, submission).terminal)
    assert status_of(cluster, submission) is DriverState.FAILED
    text = Path(cluster.look([submission])[submission].links["driver log"]).read_text(errors="replace")
    assert [line for line in text.splitlines() if says in line and "403" in line], text
    assert running.users[user].password not in text


def write_core_site(folder: Path, server: S3Server) -> None:
    root = ElementTree.Element("configuration")
    for name, value in server.core_site.items():
        entry = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(entry, "name").text = name
        ElementTree.SubElement(entry, "value").text = value
    ElementTree.ElementTree(root).write(folder / "core-site.xml")


def test_a_release_that_airflow_may_not_write_touches_nothing(running: Running, tmp_path: Path) -> None:
    connection = connection_of(running.users["read"].connection)
    with (
        running.untouched(),
        pytest.raises(SpecError, match=r"orders/releases cannot be written: access is denied\. Give the credentials"),
    ):
        open_place(RELEASES, connection, "orders", None).publish(*release_of(tmp_path))


def test_of_two_streams_that_begin_at_once_on_one_checkpoint_one_writes(running: Running, tmp_path: Path) -> None:
    """Nothing in Spark, S3A or the sink keeps the second one away; see `test_server_side_copy.py`."""
    orders = Orders(tmp_path)
    place = f"s3a://{BUCKET}/checkpoints/{tmp_path.name}"
    with hand_run_stream(tmp_path) as first:
        second = HandRunStream(first.root, "others", FilesRoot(first.url))
        try:
            orders.flow()
            streams = {"orders-1": first, "others-1": second}
            for name, stream in streams.items():
                stream.spark_conf = running.conf_of("all")
                stream.deploy(name, COUNTS, str(tmp_path), place)
            for stream, to in [(stream, stream.standby(name)) for name, stream in streams.items()]:
                stream.request(to)
            wait_for("one to be refused", lambda: first.records("failed") or second.records("failed"))
            winner, loser = (second, first) if first.records("failed") else (first, second)
            orders.go_on("orders by the other", 100)
            orders.dry()
            wanted = range(orders.written)
            wait_for("all orders", lambda: len(orders.delivered()) == len(wanted))
            assert orders.delivered() == dict.fromkeys(wanted, 1)
            (refused,) = loser.records("failed")
            # As seen before its claim, or by it.
            whose = rf"belongs to the stream {winner.stream}( of {re.escape(first.url)})?, not to {loser.stream}\b"
            assert re.search(whose, refused["error"])
            assert winner.state.holder
            assert not winner.records("failed")
            writers = {path.stem.rpartition("-")[2] for path in (tmp_path / "lines").iterdir()}
            assert len(writers) == 1
        finally:
            second.stop_all()
            show(first)
            show(second)
