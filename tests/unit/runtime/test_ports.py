"""The agent needs no pyspark: the model check and other tests run it without Spark."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = sys.modules["py4j"] = None  # importing them fails
import airflow_stream_provider.runtime.agent_thread
"""


def test_the_agent_is_imported_without_pyspark() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_SPARK], check=True, timeout=60)
