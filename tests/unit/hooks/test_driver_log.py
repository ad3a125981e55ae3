"""The end of a driver's log: whose is shown, and what it means."""

from __future__ import annotations

import pytest

from airflow_stream_provider.hooks.about_drivers import driver_log_tail, log_tail
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from tests.support.noting_cluster import NotingCluster
from tests.support.story import OLD, OLD_DEPLOYMENT, STARTED, write

WHERE, MOUNT = "/data/streams/orders/releases/abc", "file:///data/streams"


def test_a_launcher_that_is_not_there_means_a_folder_that_is_not_mounted() -> None:
    cluster = NotingCluster()
    line = f"  | python3: can't open file '{WHERE}/launcher.py': [Errno 2] No such file or directory"
    cluster.logs = {"one": line, "two": line.replace("abc", "def")}
    found = driver_log_tail(cluster, "one", WHERE, MOUNT)
    assert found.startswith(f"{line}\nThe driver's machine does not have the folder of the release, {WHERE}, or")
    assert f"Mount {MOUNT} there under the same path" in found
    assert driver_log_tail(cluster, "two", WHERE, MOUNT) == cluster.logs["two"]
    assert driver_log_tail(cluster, "", WHERE, MOUNT) == ""


def test_the_end_of_a_driver_s_log_is_shown_if_it_can_be_read_and_nothing_fails_for_it(
    hook: StreamHook, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(hook.control_log, *STARTED[:1])
    assert log_tail(hook, OLD_DEPLOYMENT) == ""
    write(hook.control_log, *STARTED[1:])
    cluster.logs = {f"driver-{OLD_DEPLOYMENT}": "  | Boom."}
    assert log_tail(hook, OLD_DEPLOYMENT) == "  | Boom."
    cluster.error = ClusterError("The master is away.")
    assert log_tail(hook, OLD_DEPLOYMENT) == ""
    cluster.error = None
    monkeypatch.setattr(cluster, "log_tail", {}.__getitem__)  # an answer that nobody has thought of
    assert log_tail(hook, OLD_DEPLOYMENT) == ""


def test_no_log_of_somebody_else_s_driver_is_shown_because_a_heartbeat_names_it(
    hook: StreamHook, cluster: NotingCluster
) -> None:
    write(hook.control_log, *STARTED[:1])
    hook.control_log.beat(OLD, Heartbeat(submission="driver-7"))
    cluster.logs = {"driver-7": "  | Boom."}
    assert log_tail(hook, OLD_DEPLOYMENT) == "  | Boom."
    cluster.strangers = {"driver-7"}
    assert log_tail(hook, OLD_DEPLOYMENT) == ""
