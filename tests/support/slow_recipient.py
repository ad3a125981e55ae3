"""A recipient that hangs the first time that it is told of a driver that died, so that a test can kill who tells it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from airflow_stream_provider.monitoring.recipients import takes_alerts


@takes_alerts
def page(alert: Any, folder: str) -> None:
    """Write down who told of what; the first time that a stream is down, wait to be killed."""
    told = {"pid": os.getpid(), "kind": alert.kind, "incident": alert.incident, "open": alert.open}
    with open(Path(folder) / "told.jsonl", "a") as file:
        file.write(json.dumps(told) + "\n")
    hung = Path(folder) / "hung"
    if alert.kind == "down" and not hung.exists():
        hung.write_text(str(os.getpid()))
        time.sleep(600)
