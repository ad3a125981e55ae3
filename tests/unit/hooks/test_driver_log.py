"""What the end of a driver's log means."""

from __future__ import annotations

from airflow_stream_provider.hooks.driver_log import driver_log_tail
from tests.support.noting_cluster import NotingCluster

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
