"""What a standalone cluster says of itself, and of an application, over real HTTP; real ones in tests/integration."""

from __future__ import annotations

import json

import pytest

from airflow_stream_provider.clusters import open_cluster
from airflow_stream_provider.lifecycle.errors import ClusterError
from tests.support.fake_master import Master

# As Spark 4.0 writes it.
PAGE = """<table class="table"><thead><tr><th>Name</th><th>Value</th></tr></thead><tbody>
<tr><td>spark.deploy.recoveryMode</td><td>FILESYSTEM</td></tr><tr>
  <td>spark.some.password</td>
  <td>*********(redacted)</td></tr><tr><td><b>spark.x</b></td><td><a href="#">a &amp; b</a></td></tr>
<tr><td>java.home</td><td>/usr</td></tr></tbody></table>"""


def test_a_master_shows_what_it_was_started_with(master: Master) -> None:
    master.pages["/environment/"] = PAGE
    found = open_cluster(master.connection()).facts("driver-1")
    assert found.settings == {
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.some.password": "*********(redacted)",
        "spark.x": "a & b",
    }
    assert (found.problem, found.ended_executors, found.executor_log) == ("", None, None)


def test_a_master_of_spark_3_shows_nothing(master: Master) -> None:
    found = open_cluster(master.connection()).facts("driver-1")
    assert found.settings == {}
    assert "Spark 4.0 and later do" in found.problem


def test_workers_tell_of_the_executors_of_the_application_alone(master: Master) -> None:
    url = f"http://127.0.0.1:{master.worker.server_address[1]}"
    master.add_worker("w1", url)
    master.add_worker("odd", "http://127.0.0.1:1")
    running = [{"appid": "app-1", "id": 3}, {"appid": "app-2", "id": 4}]
    ended = [{"appid": "app-1", "id": 1}, {"appid": "app-1", "id": 2}, {"appid": "app-2", "id": 1}]
    master.pages["/json/"] = json.dumps({**master.state, "executors": running, "finishedexecutors": ended})
    log = "/log/?appId=app-1&executorId=3&logType=stderr&byteLength=1"
    master.pages[log] = "==== Bytes 700-701 of 701 of /work/app-1/3/stderr ====\nx"
    found = open_cluster(master.connection()).facts("driver-1", ["app-1"])
    assert (found.ended_executors, found.executor_log) == (2, 701)


def test_an_application_is_asked_where_its_page_leads(master: Master) -> None:
    url = f"http://127.0.0.1:{master.worker.server_address[1]}"
    master.pages["/app/?appId=app-1"] = f'<strong><a href="{url}">Application Detail UI</a></strong>'
    master.pages["/api/v1/version"] = '{"spark": "4.0.0"}'
    said = {"sparkProperties": [["spark.speculation", "true"]], "hadoopProperties": [["a", "b"]]}
    master.pages["/api/v1/applications/app-1/environment"] = json.dumps(said)
    cluster = open_cluster(master.connection())
    assert cluster.unmanaged_settings("app-1") == ("4.0.0", {"spark.speculation": "true"})

    master.pages["/api/v1/applications/app-1/environment"] = '{"sparkProperties": 7}'
    with pytest.raises(ClusterError, match="is no Spark UI"):
        cluster.unmanaged_settings("app-1")
    master.pages["/app/?appId=app-1"] = '<a href="http://169.254.169.254">Application Detail UI</a>'
    with pytest.raises(ClusterError, match=r"169\.254\.169\.254"):
        cluster.unmanaged_settings("app-1")
    with pytest.raises(ClusterError, match="answered HTTP 404"):
        cluster.unmanaged_settings("app-2")
