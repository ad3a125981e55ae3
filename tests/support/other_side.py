"""Speaks with a runtime of any version in a process of its own; see `tests.support.runtime_process`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.control.releases import runtime_zip
from tests.support import runtime_process
from tests.support.jvm_drivers import connector
from tests.support.recorded import FORMAT_1

OLDER = FORMAT_1 / "airflow_stream_runtime.zip"


class OtherSide:
    """One of them."""

    def __init__(self, archive: Path, errors: Path, url: str, brokers: str) -> None:
        self._errors = errors
        submit = {"PYSPARK_SUBMIT_ARGS": f"--driver-class-path {connector()} pyspark-shell"} if brokers else {}
        self._process = subprocess.Popen(
            [sys.executable, "-I", runtime_process.__file__, str(archive), url, brokers],
            env={**os.environ, **submit},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors.open("a"),
            text=True,
        )

    def __call__(self, do: str, **arguments: Any) -> Any:
        """Give an order, and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._errors.read_text()[-3000:]
        said = json.loads(line)
        assert "error" not in said, said
        return said["answer"]

    def append(self, kind: str, **fields: Any) -> int:
        """Append a record as a task of Airflow does, and return its number."""
        return int(self("append", kind=kind, by="airflow:orders__upgrade/manual__1/task", fields=fields))

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Callable[..., OtherSide]]:
    """Starts one: `older`, of the recorded runtime, or `newer`, of today's, on a control URL (and its brokers)."""
    newer = tmp_path / "newer.zip"
    newer.write_bytes(runtime_zip())
    started: list[OtherSide] = []

    def start(version: str, url: str, brokers: str = "") -> OtherSide:
        archive = {"older": OLDER, "newer": newer}[version]
        started.append(OtherSide(archive, tmp_path / f"{version}.err", url, brokers))
        return started[-1]

    yield start
    for each in started:
        each.close()
