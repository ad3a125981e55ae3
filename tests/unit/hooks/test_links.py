"""Where a person sees a driver."""

from __future__ import annotations

from airflow_stream_provider.hooks.about_drivers import driver_links
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from tests.support.noting_cluster import NotingCluster
from tests.support.story import OLD, OLD_DEPLOYMENT, STARTED, write


def test_links_are_what_is_known_of_them(hook: StreamHook, cluster: NotingCluster) -> None:
    write(hook.control_log, *STARTED[:1])
    assert driver_links(hook, OLD_DEPLOYMENT) == {}
    write(hook.control_log, *STARTED[1:])
    log = {"driver log": f"http://worker/driver-{OLD_DEPLOYMENT}"}
    assert driver_links(hook, OLD_DEPLOYMENT) == log
    hook.control_log.beat(OLD, Heartbeat(ui_url="http://driver:4040"))
    assert driver_links(hook, OLD_DEPLOYMENT) == {**log, "Spark UI": "http://driver:4040"}
    cluster.error = ClusterError("The master is away.")
    assert driver_links(hook, OLD_DEPLOYMENT) == {"Spark UI": "http://driver:4040"}
