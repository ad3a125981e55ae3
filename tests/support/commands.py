"""The commands of `airflow streams` on the stream orders, with a real control log and a cluster that notes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.cli import act
from airflow_stream_provider.control import ControlLog
from tests.support.noting_cluster import NotingCluster


@dataclass
class Here:
    """Where commands are given. `said`: what they have printed since it was asked last."""

    folder: Path
    control: str
    log: ControlLog
    cluster: NotingCluster
    said: Callable[[], Any]

    def call(self, name: str, **more: Any) -> int:
        """Call a command, and return its exit code; by default with a reason, and no person is asked."""
        given = {"reason": "disk of w3", "dry_run": False, "yes": True, "json": False, "verbose": False, **more}
        with pytest.raises(SystemExit) as found:
            act.act(Namespace(name="orders", folder=str(self.folder), **given), name)
        return int(found.value.code or 0)
