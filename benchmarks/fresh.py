"""What a benchmark measures in a process of its own, as a task is one: `python -m benchmarks.fresh NAME ARGUMENT...`.

Each prints its numbers as JSON. What is imported is part of what is measured, so the functions import it themselves.
"""

from __future__ import annotations

import gc
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).parents[1]


def cpu() -> float:
    """Return the CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def watch_look(yaml: str, count: str) -> dict[str, Any]:
    """Let the watch look at the first so many streams of a folder."""
    import_module("airflow.sdk.execution_time.task_runner")
    from airflow_stream_provider.monitoring.folder_look import FolderLook
    from airflow_stream_provider.spec.folder import read_folder

    start = cpu()
    files = read_folder(yaml)[: int(count)]
    read, began = cpu(), time.perf_counter()
    look = FolderLook(f"w{count}__watch", files, (), None, {}, print, everything=True)
    found = look.go()
    look.watching.keep()
    return {
        "start": start,
        "read": read - start,
        "look": cpu() - read,
        "seconds": time.perf_counter() - began,
        "summary": found.summary,
        "revive": [*found.revive],
        "memory": len(json.dumps(look.memory.kept(look.now).to_json())),
    }


def topic_look(spec: str, size: str, broker: str) -> dict[str, Any]:
    """Let the watch look at so many streams whose logs are in Kafka, and count what it reads.

    :param broker: process id of the broker.
    """
    import_module("airflow.sdk.execution_time.task_runner")
    import psutil

    from airflow_stream_provider.kafka.client import KafkaClient
    from airflow_stream_provider.monitoring import folder_reading, health
    from airflow_stream_provider.monitoring.folder_look import FolderLook
    from airflow_stream_provider.spec.folder import StreamFile
    from airflow_stream_provider.spec.stream import StreamSpec

    health.FRESH_SECONDS = math.inf
    folder_reading.STAGE_SECONDS = folder_reading.EACH_SECONDS = 3600.0
    folder_reading.READ_SECONDS = folder_reading.WRITE_SECONDS = 3600.0
    fields, server = json.loads(spec), psutil.Process(int(broker))
    specs = [StreamSpec.model_validate({**fields, "name": f"s{number:04d}"}) for number in range(int(size))]
    files = [StreamFile(each.source, each) for each in specs]
    received: list[int] = []
    read = KafkaClient.read

    def counted(*arguments: Any, **options: Any) -> Any:
        answers = read(*arguments, **options)
        for each in (message for fetched in answers.values() for message in fetched.messages):
            received.append(len(each.key or b"") + len(each.value or b"") + sum(map(len, each.headers.values())))
        return answers

    start, began, before = cpu(), time.perf_counter(), server.cpu_times()
    with patch.object(KafkaClient, "read", counted):
        look = FolderLook("streams__watch", files, (), None, {}, print, everything=True).go()
    seconds, after = time.perf_counter() - began, server.cpu_times()
    return {
        "start": start,
        "look": cpu() - start,
        "seconds": seconds,
        "broker": after.user + after.system - before.user - before.system,
        "bytes": sum(received),
        "summary": look.summary,
        "revive": [*look.revive],
    }


def parse(folder: str) -> list[float]:
    """Make the DAGs of a folder: seconds of Airflow's own import, seconds and CPU seconds of ours, number of DAGs."""
    began = time.perf_counter()
    for name in (
        "sdk",
        "triggers.base",
        "providers.standard.operators.hitl",
        "providers.standard.operators.trigger_dagrun",
    ):
        import_module(f"airflow.{name}")
    gc.freeze()
    imported, busy = time.perf_counter(), time.process_time()
    from airflow_stream_provider import stream_dags

    dags = stream_dags(folder)
    took = time.perf_counter() - imported
    return [imported - began, took, time.process_time() - busy, len(dags)]


MEASURED: Mapping[str, Callable[..., Any]] = {"watch_look": watch_look, "topic_look": topic_look, "parse": parse}


def run(name: str, *arguments: object, **environment: str) -> Any:
    """Run one of these in a fresh process, and return its numbers."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fresh", name, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    print(json.dumps(MEASURED[sys.argv[1]](*sys.argv[2:])))
