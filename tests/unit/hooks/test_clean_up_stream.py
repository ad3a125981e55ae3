"""A stream that is cleaned up: its folder, and its cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.monitoring.readings import clean_up_stream
from devstack.control_folder import folder_of
from tests.support.noting_cluster import NotingCluster
from tests.support.story import NEW_DEPLOYMENT, OLD, PREPARED, retired, write


def test_the_folder_is_cleaned_up_and_a_failure_is_no_error(hook: StreamHook, tmp_path: Path) -> None:
    hook.control_log.beat(OLD, Heartbeat())
    beat = folder_of(hook.control_log) / "heartbeats" / f"{OLD}.json"
    os.utime(beat, times=(0, 0))
    clean_up_stream(hook)
    assert not beat.exists()
    folder_of(hook.control_log).rename(tmp_path / "unmounted")
    clean_up_stream(hook)


def test_cleaning_up_lets_the_cluster_forget_the_drivers_whose_end_is_in_the_log(
    hook: StreamHook, cluster: NotingCluster, caplog: pytest.LogCaptureFixture
) -> None:
    write(hook.control_log, *PREPARED)
    clean_up_stream(hook)
    assert cluster.forgotten == []
    write(hook.control_log, retired(NEW_DEPLOYMENT))
    clean_up_stream(hook)
    assert cluster.forgotten == [NEW_DEPLOYMENT]
    cluster.error = ClusterError("The cluster is away.")
    clean_up_stream(hook)
    assert "keeps of orders cannot be cleaned up now: The cluster is away." in caplog.text
