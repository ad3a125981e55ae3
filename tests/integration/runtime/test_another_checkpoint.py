"""A checkpoint that is not the one that it was: removed by the script, or under a running driver, or put back from
yesterday. Nothing begins anew, and people are told; on a mounted folder and on HDFS.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.state import DeploymentEnd, StreamPhase
from airflow_stream_provider.releases.webhdfs import webhdfs_client
from devstack.drivers import HandRunStream, SubmittedDriver, hand_run_stream, wait_for
from devstack.hdfs import Hdfs
from tests.support.hand_run import show
from tests.support.orders_files import Orders

SCRIPTS = Path(__file__).with_name("scripts")
NOT_THE_ONE = "is not the one that the stream has run on"
pytestmark = pytest.mark.system  # each takes some minutes


class Folder:
    """A checkpoint that somebody removes, copies and puts back: in a mounted folder, or on HDFS."""

    def __init__(self, root: Path, hdfs: Hdfs | None = None) -> None:
        self.path = root / "checkpoint"
        self.url = str(self.path) if hdfs is None else f"{hdfs.url}{self.path}"
        self._kept = root / "kept"
        self._client = None if hdfs is None else webhdfs_client(hdfs.web_url, hdfs.connection["login"], (5.0, 60.0))

    def remove(self) -> None:
        if self._client is None:
            shutil.rmtree(self.path)
        else:
            assert self._client.delete(str(self.path), recursive=True)

    def rests(self) -> bool:
        """Whether each batch that is planned is committed."""
        planned, committed = ({name for name in self._names(log) if name.isdigit()} for log in ("offsets", "commits"))
        return planned == committed

    def _names(self, log: str) -> list[str]:
        if self._client is None:
            return [path.name for path in (self.path / log).iterdir()]
        return list(self._client.list(str(self.path / log)))

    def keep(self) -> None:
        """Copy it, as a back-up does."""
        if self._client is None:
            shutil.copytree(self.path, self._kept)
        else:
            self._client.download(str(self.path), str(self._kept))

    def put_back(self) -> None:
        """Put the copy in its place."""
        self.remove()
        if self._client is None:
            shutil.copytree(self._kept, self.path)
        else:
            self._client.upload(str(self.path), str(self._kept))


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


@pytest.fixture(params=["file", "hdfs"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    return Folder(tmp_path, request.getfixturevalue("hdfs") if request.param == "hdfs" else None)


def deploy(
    stream: HandRunStream, orders: Orders, folder: Folder, name: str, script: str = "counts.py", **policy: Any
) -> SubmittedDriver:
    return stream.deploy(name, SCRIPTS / script, str(orders.root), folder.url, **policy)


def run_again(stream: HandRunStream, orders: Orders, folder: Folder, name: str, again: str) -> SubmittedDriver:
    """As the watch, a start after a stop, and a cold roll-back do: the release is declared again, from its record."""
    declared = stream.state.deployments[again].declared
    stream.append("declared", deployment=name, again=again, release=declared["release"], policy=declared["policy"])
    return stream.launch(name, declared["release"]["application"], str(orders.root), folder.url)


def holds(stream: HandRunStream, orders: Orders, folder: Folder, script: str = "counts.py") -> SubmittedDriver:
    """Return the driver of a release that holds, and has committed some batches."""
    driver = deploy(stream, orders, folder, "orders-1", script)
    stream.hand_over(stream.standby("orders-1"))
    for _ in range(3):
        arrive(orders)
    return driver


def arrive(orders: Orders) -> None:
    orders.write()
    wait_for("the orders to come out", lambda: len(orders.delivered()) == orders.written)


def ends_as_failed(stream: HandRunStream, driver: SubmittedDriver) -> str:
    """Wait until a driver has ended as failed; return the reason."""
    assert driver.exit_code() == 50, driver.log()[-2000:]
    found = stream.state.deployments[driver.deployment]
    assert found.ended is DeploymentEnd.FAILED
    return found.reason


def counted(orders: Orders, said: str) -> tuple[int, int]:
    """Return how many orders have not come out, and how often others have come out once more than they should."""
    out = orders.delivered()
    missing, again = orders.written - len(out), out.total() - len(out)
    print(f"{said}: {orders.written} orders written, {missing} not come out, {again} come out again")
    return missing, again


def test_a_folder_that_is_removed_under_its_driver(stream: HandRunStream, orders: Orders, folder: Folder) -> None:
    """Restart in place, hand-over to a warm standby, revival: none begins anew."""
    one = holds(stream, orders, folder)
    two = deploy(stream, orders, folder, "orders-2")
    warm = stream.standby("orders-2")
    before = orders.written
    folder.remove()
    orders.write()
    said = ends_as_failed(stream, one)
    assert NOT_THE_ONE in said
    assert "`changed_checkpoints`" in said
    assert stream.state.phase is StreamPhase.FAILED
    # What it has committed is in the log: whoever comes next must see as much.
    assert stream.records("failed")[-1]["ends"]["counts"]["batch"] >= 2
    stream.request(warm)
    assert NOT_THE_ONE in ends_as_failed(stream, two)
    revived = run_again(stream, orders, folder, "orders-3", "orders-1")
    assert NOT_THE_ONE in ends_as_failed(stream, revived)
    # The batch that the removal cut off had not begun, or was called once; nothing from before came again.
    missing, again = counted(orders, "after three drivers on a folder that was removed")
    assert missing in (0, orders.written - before)
    assert again == 0


def test_a_checkpoint_that_is_put_back_from_yesterday(stream: HandRunStream, orders: Orders, folder: Folder) -> None:
    """Deployment, rehearsal, start after a stop: refused, but for who says that it was put back on purpose."""
    one = holds(stream, orders, folder)
    stream.request(None)
    wait_for("the stop", lambda: stream.state.phase is StreamPhase.STOPPED)
    stream.append("retired", deployment="orders-1", reason="test")
    assert one.exit_code() == 0
    folder.keep()
    kept = orders.written
    two = run_again(stream, orders, folder, "orders-2", "orders-1")
    stream.hand_over(stream.standby("orders-2"))
    for _ in range(2):
        arrive(orders)
    # Under a driver that holds, and waits for data: it is the new release that sees it.
    wait_for("the last commit", folder.rests)
    folder.put_back()
    refused = deploy(stream, orders, folder, "orders-3")
    assert NOT_THE_ONE in ends_as_failed(stream, refused)
    assert stream.state.holder is not None
    stream.request(None)
    wait_for("the stop", lambda: stream.state.phase is StreamPhase.STOPPED)
    stream.append("retired", deployment="orders-2", reason="test")
    assert two.exit_code() == 0
    started = run_again(stream, orders, folder, "orders-4", "orders-2")
    assert NOT_THE_ONE in ends_as_failed(stream, started)
    assert counted(orders, "after two drivers on yesterday's copy") == (0, 0)

    deploy(stream, orders, folder, "orders-5", changed_checkpoints=[folder.url])
    stream.hand_over(stream.standby("orders-5"))
    # What was read since the copy was made comes again, as announced, and nothing else.
    wait_for("what is read again", lambda: sum(orders.delivered().values()) == orders.written * 2 - kept)
    orders.write()
    wait_for("what is new", lambda: len(orders.delivered()) == orders.written)
    twice = sorted(number for number, times in orders.delivered().items() if times == 2)
    assert twice == list(range(kept, orders.written - 20))
    assert counted(orders, f"after it was named, with {kept} orders in the copy") == (0, orders.written - 20 - kept)
    # From now on it is the stream's, as the one before was.
    again = run_again(stream, orders, folder, "orders-6", "orders-5")
    assert stream.standby("orders-6")
    assert again.tree()


def test_a_script_that_removes_its_checkpoint_when_it_begins(
    stream: HandRunStream, orders: Orders, folder: Folder
) -> None:
    """By Python it cannot while another driver runs on it; by the JVM it can, and the one that runs ends aloud."""
    one = holds(stream, orders, folder, "removes.py")
    two = deploy(stream, orders, folder, "orders-2", "removes.py")
    said = ends_as_failed(stream, two)
    if folder.url.startswith("/"):
        failed = stream.records("failed")[-1]
        assert "The script wanted to change" in failed["error"], failed
        assert (
            "the checkpoint of the query lines of the stream orders, which orders-1 runs or ran last" in failed["error"]
        )
        for _ in range(2):
            arrive(orders)
        assert counted(orders, "after a script that wanted to remove it") == (0, 0)
        # So is the same release when it is brought back after a death.
        one.signal(9)
        one.exit_code()
        stream.append("fenced", incarnation=stream.state.holder, reason="test", evidence={"cluster": "test"})
        three = run_again(stream, orders, folder, "orders-3", "orders-1")
        ends_as_failed(stream, three)
        assert "The script wanted to change" in stream.records("failed")[-1]["error"]
    else:
        assert NOT_THE_ONE in said
        orders.write()
        assert NOT_THE_ONE in ends_as_failed(stream, one)
    assert folder.url.startswith("/") is folder.path.exists()
    missing, again = counted(orders, "after scripts that removed it, or wanted to")
    assert missing in ((0,) if folder.path.exists() else (0, 20))
    assert again == 0
