"""One stream of a test: its YAML, its releases, what Airflow made of it, and what came out."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from airflow_stream_provider.clusters.processes import MARK
from airflow_stream_provider.control import ControlLog, FilesRoot, make_root, open_log
from airflow_stream_provider.lifecycle.state import StreamState
from devstack.drivers import lives

SPEC = """\
name: {name}
application: apps/{name}.py
version: "1"
cluster: spark_here
control: {control}
arguments: [{data}]
conf: {{spark.driver.memory: 64m}}
upgrade:
  strategy: {strategy}
  soak: 2s
  keep_previous: 1h
  lease_seconds: 5
  boundary_seconds: 3
  take_back_seconds: 15
"""


@dataclass
class Run:
    """What became of a DAG run."""

    state: str
    states: Mapping[str, str]
    tries: Mapping[str, int]
    xcoms: Mapping[str, Mapping[str, Any]]
    other_runs: list[dict[str, Any]]
    log: str

    def result(self, task: str) -> Any:
        return self.xcoms.get(task, {}).get("return_value")


class Airflow:
    """The process that runs DAGs, and its log."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.environment = dict(environment)
        self.home = Path(environment["AIRFLOW_HOME"])
        self.log = log
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=self.environment,
                text=True,
                start_new_session=True,
            )

    def run(self, **command: Any) -> Run:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        begin = self.log.stat().st_size
        print(json.dumps(command), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline() or '{"error": "the worker is gone"}')
        text = self.log.read_bytes()[begin:].decode(errors="replace")
        assert "error" not in answer, answer["error"] + text[-5000:]
        return Run(**answer, log=text)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(600)


class World:
    """A stream and its Airflow."""

    def __init__(self, airflow: Airflow, folder: Path, name: str, strategy: str = "handover") -> None:
        self.airflow = airflow
        self.name = name
        self.folder = folder
        self.control = f"file://{folder}/control"
        make_root(self.control)
        self.data = folder / "data"
        self.data.mkdir()
        dags = airflow.home / "dags"
        self.yaml = dags / "streams" / f"{name}.yaml"
        self.application = dags / "apps" / f"{name}.py"
        self.yaml.write_text(SPEC.format(name=name, control=self.control, data=self.data, strategy=strategy))
        self.runs = 0
        self.write()

    def write(self, behaviour: str = "", queries: tuple[str, ...] = ("enrich", "totals")) -> None:
        """Write the application as the next release shall have it."""
        self.application.write_text(f"QUERIES = {queries!r}\nBEHAVIOUR = {behaviour!r}\n")

    def upgrade(self, version: str, again: datetime | None = None, **command: Any) -> Run:
        """Run the upgrade DAG as a person would trigger it; `again` clears that whole run and lets it run again."""
        self.date = again or datetime.now(UTC)
        conf = {"version": version, **command.pop("conf", {})}
        return self.airflow.run(dag=f"{self.name}__upgrade", logical_date=self.date.isoformat(), conf=conf, **command)

    def by_hand(self, what: str, again: datetime | None = None, crash: Any = None, **conf: str) -> Run:
        """Run one of the single operators of `by_hand`, or another DAG of the stream, or the revival of it."""
        dag = f"{self.name}__{what}"
        if what == "revive":
            self.look()  # by which its control root is known
            dag, conf = "streams__revive", {"stream": self.name, "control": self.control}
        self.date = again or datetime.now(UTC)
        return self.airflow.run(dag=dag, logical_date=self.date.isoformat(), conf=conf, crash=crash)

    def look(self) -> Run:
        """Let the watch of the folder look once."""
        return self.airflow.run(dag="streams__watch", logical_date=datetime.now(UTC).isoformat())

    def watch(self, crash: Any = None) -> Run:
        """Let the watch look, then carry out the run that it has triggered for this stream; else return the look."""
        run = self.look()
        assert run.state == "success", run.log[-8000:]
        for each in run.other_runs:
            mine = each["dag"] == "streams__revive" and each["conf"]["stream"] == self.name
            if mine and each["state"] == "queued":
                date = datetime.now(UTC).isoformat()
                return self.airflow.run(dag=each["dag"], logical_date=date, conf=each["conf"], crash=crash)
        return run

    def deploy(self, version: str = "1") -> Run:
        run = self.upgrade(version)
        assert run.state == "success", run.log[-8000:]
        return run

    @property
    def log(self) -> ControlLog:
        return open_log(self.control, self.name)

    @property
    def state(self) -> StreamState:
        return self.log.refresh()

    @property
    def version(self) -> str:
        """The release that runs; empty if none."""
        held = self.state.holding_deployment
        return held.release.version if held else ""

    def kinds(self) -> list[str]:
        return [record.kind for record in self.log.records()]

    def drivers(self) -> dict[int, str]:
        """Live drivers of this stream: process id to deployment."""
        found = {}
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            ours = any(word.endswith("driver_without_spark.py") for word in words) and self.control in words
            if ours and lives(process):
                found[process.pid] = words[words.index("--deployment") + 1]
        return found

    def batches(self, query: str = "enrich") -> list[int]:
        path = self.data / f"{query}.txt"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def assert_sound(self) -> None:
        """Every batch exactly once, in order; never two holders."""
        for query in ("enrich", "totals"):
            batches = self.batches(query)
            assert batches == list(range(len(batches)))

    def until(self, what: str, condition: Callable[[], object], seconds: float = 600.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.kinds()}"
            time.sleep(0.1)

    def end(self) -> None:
        """Leave nothing behind: neither processes nor DAGs."""
        for pid in self.drivers():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signal.SIGKILL)
        self.yaml.unlink(missing_ok=True)
        # Its YAML is gone, and nobody has stopped it: it would be brought back.
        FilesRoot(self.control).forget(self.name)
        for process in psutil.process_iter():
            try:
                if str(self.folder) in process.environ().get(MARK, ""):
                    process.kill()
            except (psutil.Error, OSError):
                continue
