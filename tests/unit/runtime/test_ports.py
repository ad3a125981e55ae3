"""The agent needs no pyspark: the model check and other tests run it without Spark."""

from __future__ import annotations

import subprocess
import sys
import time

from airflow_stream_provider.runtime.ports import MachineClock

WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = sys.modules["py4j"] = None  # importing them fails
import airflow_stream_provider.runtime.agent
"""


def test_the_agent_is_imported_without_pyspark() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_SPARK], check=True, timeout=600)


def test_the_clock_goes_on_while_the_machine_is_suspended() -> None:
    """Nobody suspends this machine for a test: it is the clock that Linux says does so."""
    clock = MachineClock()
    boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    assert time.clock_gettime(boot) <= clock.monotonic() <= time.clock_gettime(boot)
