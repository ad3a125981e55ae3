"""One master of a Spark standalone cluster."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devstack.ports import HOST, free_port
from devstack.processes import Process, Processes

# One that is busy is waited for: whoever asks takes no answer for one that is away.
ANSWER_SECONDS = 30.0


class Master:
    """A master with REST submission, on free ports of the loopback address.

    :param name: name of its process.
    :param processes: where it is started.
    """

    def __init__(self, name: str, processes: Processes) -> None:
        self.name = name
        self.port, self.rest_port, self.ui_port = (free_port() for _ in range(3))
        self.address = f"{HOST}:{self.port}"
        self.rest_url = f"http://{HOST}:{self.rest_port}"
        self.ui_url = f"http://{HOST}:{self.ui_port}"
        self.process: Process | None = None
        self._processes = processes

    def start(
        self, command: Sequence[str], *, recovery: Mapping[str, str], env: Mapping[str, str], folder: Path
    ) -> Process:
        """Start its process, and return it.

        :param command: Java with its options and class path.
        :param recovery: Spark's settings `spark.deploy.…` by which it knows its workers, drivers and applications when
            it is started again, or takes over from another master; else it kills them.
        """
        settings = {"spark.master.rest.enabled": "true", "spark.master.rest.port": str(self.rest_port), **recovery}
        self.process = self._processes.start(
            self.name,
            [
                *command,
                *(f"-D{key}={value}" for key, value in settings.items()),
                "org.apache.spark.deploy.master.Master",
                *("--host", HOST, "--port", str(self.port), "--webui-port", str(self.ui_port)),
            ],
            env=env,
            folder=folder,
        )
        return self.process

    def state(self) -> dict[str, Any]:
        """Return its state as JSON: workers, drivers, applications. {} if it does not answer."""
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"{self.ui_url}/json/", timeout=ANSWER_SECONDS) as page,
        ):
            found: dict[str, Any] = json.load(page)
            return found
        return {}
