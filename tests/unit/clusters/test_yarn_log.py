"""The end of a driver's log on YARN, over real HTTP."""

from __future__ import annotations

from airflow_stream_provider.clusters.yarn_applications import without_torn_lines
from tests.support.fake_yarn import ID, STARTED, FakeYarn


def test_the_end_of_a_driver_s_log_is_on_its_node_and_else_in_what_yarn_says(
    fake: FakeYarn,
) -> None:
    cluster = fake.cluster()
    assert cluster.log_tail(ID) == ""
    node, container = fake.add_node(), f"container_{STARTED}_0001_01_000001"
    logs = f"http://{node.server.address}/node/containerlogs/{container}/alice"
    app = fake.add_app(state="FAILED", diagnostics="User application exited with status 1\ntoken=hunter2")
    app |= {"amContainerLogs": logs, "amHostHttpAddress": node.server.address}
    said = "  | User application exited with status 1\n  | token=***"
    assert cluster.log_tail(ID) == said, "its node has the log no more"
    node.logs = {
        f"{container}/stderr": "x" * 100_000 + "\nERROR Client\n",
        f"{container}/stdout": "password=hunter2\nBoom.\n",
    }
    assert cluster.log_tail(ID) == "  stderr:\n  | ERROR Client\n  stdout:\n  | password=***\n  | Boom."
    app["amHostHttpAddress"] = node.server.address.replace("127.0.0.1", "localhost")
    assert fake.cluster(worker_hosts="10.0.0.0/8").log_tail(ID) == said, "a host that is not to be asked"
    fake.info["haState"] = "STANDBY"
    assert cluster.log_tail(ID) == ""


def test_a_line_of_which_yarn_shows_the_end_only_is_not_shown(fake: FakeYarn) -> None:
    """Its beginning may have said that this is a secret."""
    said = (
        "exitCode: 1\nLast 4096 bytes of prelaunch.err :\nter2\nLast 4096 bytes of stderr :\n-hunter2;\nTraceback\nX."
    )
    fake.add_app(state="FAILED", diagnostics=said)
    shown = "exitCode: 1\nLast 4096 bytes of prelaunch.err :\nLast 4096 bytes of stderr :\nTraceback\nX."
    assert fake.cluster().log_tail(ID).replace("  | ", "") == shown
    assert without_torn_lines("x Last 10 bytes of stderr : -hunter2") == "x Last 10 bytes of stderr : "
    assert without_torn_lines("Last 10 bytes of stderr :\n") == "Last 10 bytes of stderr :\n"
    assert without_torn_lines("The queue is closed.") == "The queue is closed."
