"""What the tests of all ledgers share: who writes, a batch by its offsets, and a wait for a driver that freezes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from airflow_stream_provider.sinks.ledger import Batch, Writer
from devstack.drivers import wait_for

MANAGED = Writer("orders", "daily", "one.a", control="log", hold=4)
PLAIN = Writer("orders", "daily", "a plain job")


def batch(number: int, begins: int, ends: int, query: str = "q1") -> Batch:
    """Return a batch of one partition of a topic."""
    return Batch(query, number, [{"orders": {"0": begins}}], [{"orders": {"0": ends}}])


def wait_until_frozen(process: subprocess.Popen[str]) -> None:
    """Wait until a process has frozen itself."""
    stat = Path(f"/proc/{process.pid}/stat")

    def frozen() -> bool:
        assert process.poll() is None, "it has ended"
        return stat.read_text().rpartition(")")[2].split()[0] == "T"

    wait_for("the driver to freeze", frozen)
