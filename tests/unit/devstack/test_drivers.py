"""What is asked of a process that may end meanwhile."""

from __future__ import annotations

import subprocess

import psutil

from airflow_stream_provider.clusters.processes import command
from devstack.drivers import lives


def test_a_process_that_has_ended_has_no_words_and_does_not_live() -> None:
    with subprocess.Popen(["sleep", "600"]) as started:
        process = psutil.Process(started.pid)
        assert lives(process)
        started.kill()
        started.wait()
        assert command(process) == []
        assert not lives(process)
