"""What the page in Airflow's UI costs with many streams: the server's answer, the browser's picture, many open pages.

    python -m benchmarks.page [--streams 1000] [--rounds 20] [--readers 20]

A real Airflow with a control log and an hour of the watch's samples for each stream; no driver runs. The list is
painted when all its rows are in a frame; its time counts from the end of the answer. The cores are those of the API
server. Needs `make page` and Chromium.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import requests

from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.samples import LagSample
from benchmarks.results import machine, show, spread, write
from devstack.airflow import Airflow
from devstack.stack import LocalStack
from tests.support.browser import person_at
from tests.support.control_root import new_log
from tests.support.snapshots import UPGRADED
from tests.support.story import write as write_story

WANTED_PAINTED, WANTED_SERVER = 1.5, 0.1
EVERY_SECONDS, COUNTED_SECONDS = 2.0, 20.0
LOADED_SECONDS = 1800.0
DAGS = """\
from airflow_stream_provider import stream_dags

globals().update(stream_dags("many"))
"""
YAML = """\
name: {name}
application: apps/a.py
version: "1"
cluster: none_here
control: {control}
"""
# Sets `painted` when the rows are in a frame: the milliseconds since the answer that brought them.
WATCH_ROWS = """
(wanted) => {
  const look = () => {
    if (document.querySelectorAll(".sp-list tbody tr").length < wanted) return requestAnimationFrame(look);
    requestAnimationFrame(() => {
      const answers = performance.getEntriesByType("resource").filter((each) => each.name.includes("/api/streams"));
      window.painted = performance.now() - answers.find((each) => each.encodedBodySize > 9999).responseEnd;
    });
  };
  requestAnimationFrame(look);
}
"""


def prepare(folder: Path, count: int) -> Path:
    """Write a YAML, a control log and an hour of samples for each stream; return the folder of DAG files."""
    dags, control = folder / "dags", f"file://{folder / 'control'}"
    (folder / "control").mkdir()
    (dags / "many").mkdir(parents=True)
    (dags / "apps").mkdir()
    (dags / "apps" / "a.py").write_text("x = 1\n")
    (dags / "many.py").write_text(DAGS)
    now = time.time()
    for number in range(count):
        name = f"s{number:04d}"
        (dags / "many" / f"{name}.yaml").write_text(YAML.format(name=name, control=control))
        write_story(new_log(control, name), *UPGRADED)
        kept = control_root(control).samples(name)
        for minute in range(60):
            samples.append(kept, LagSample(now - 3600 + 60 * minute, "running", "1"))
    return dags


def server(airflow: Airflow, token: str, rounds: int) -> tuple[list[float], list[float], int]:
    """Return the seconds of a refresh and of a whole list, and the bytes of that."""
    session = requests.Session()
    session.cookies.set("_token", token)

    def ask(since: str) -> tuple[float, requests.Response]:
        began = time.perf_counter()
        answer = session.get(f"{airflow.url}/streams/api/streams", params={"since": since}, timeout=LOADED_SECONDS)
        answer.raise_for_status()
        return time.perf_counter() - began, answer

    refreshes, wholes, size = [], [], 0
    version = ""
    for _ in range(rounds):
        took, answer = ask("")
        wholes.append(took)
        size = len(answer.content)
        version = answer.json()["version"]
        time.sleep(EVERY_SECONDS)  # as a page waits
        took, answer = ask(version)
        refreshes.append(took)
    return refreshes, wholes, size


def cores(airflow: Airflow) -> float:
    """Return the cores that the API server uses."""

    def spent() -> float:
        parent = psutil.Process(airflow.parts["api-server"].pid)
        found = [each.cpu_times() for each in (parent, *parent.children(recursive=True))]
        return float(sum(each.user + each.system for each in found))

    before, began = spent(), time.monotonic()
    time.sleep(COUNTED_SECONDS)
    return (spent() - before) / (time.monotonic() - began)


def while_read(airflow: Airflow, token: str, readers: int, then: Callable[[], float]) -> float:
    """Return what is found while so many pages are open, each of which asks every two seconds."""
    end = threading.Event()

    def read() -> None:
        version = ""
        while not end.wait(EVERY_SECONDS):
            answer = requests.get(
                f"{airflow.url}/streams/api/streams",
                params={"since": version},
                cookies={"_token": token},
                timeout=LOADED_SECONDS,
            )
            version = answer.json()["version"]

    threads = [threading.Thread(target=read) for _ in range(readers)]
    for each in threads:
        each.start()
    try:
        time.sleep(2 * EVERY_SECONDS)
        return then()
    finally:
        end.set()
        for each in threads:
            each.join()


def painted(airflow: Airflow, count: int, rounds: int) -> list[float]:
    """Return the seconds from the answer to the picture of the list, each time in a page that is loaded anew."""
    found = []
    with person_at(airflow) as person:
        for _ in range(rounds):
            page = person.go("plugin/streams")
            page.evaluate(WATCH_ROWS, count)
            found.append(page.wait_for_function("() => window.painted").json_value() / 1000)
    return found


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--readers", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        dags = prepare(Path(name), args.streams)
        with LocalStack(Path(name) / "stack", kafka=False, spark=False, dags_folder=dags) as stack:
            airflow = stack.airflow
            airflow.api.wait_for_dag(f"s{args.streams - 1:04d}__operate")
            login = {"username": airflow.user, "password": airflow.password}
            answer = requests.post(f"{airflow.url}/auth/token", json=login, timeout=LOADED_SECONDS)
            token = answer.json()["access_token"]
            refreshes, wholes, size = server(airflow, token, args.rounds)
            nobody, one, many = (while_read(airflow, token, n, lambda: cores(airflow)) for n in (0, 1, args.readers))
            pictures = painted(airflow, args.streams, max(3, args.rounds // 4))
    sides = {"refresh": spread(refreshes), "whole list": spread(wholes), "answer to picture": spread(pictures)}
    verdicts = {
        "refresh, p50, s": (sides["refresh"]["p50"], "<=", WANTED_SERVER),
        "answer to picture, p50, s": (sides["answer to picture"]["p50"], "<=", WANTED_PAINTED),
    }
    show(f"{args.streams} streams, {size} bytes", sides, verdicts)
    used = {"nobody": nobody, "one page": one, f"{args.readers} pages": many}
    print("Cores of the API server:", ", ".join(f"{who} {found:.3f}" for who, found in used.items()))
    write("page", {**machine(), **vars(args), **sides, "bytes": size, "cores": used})
    return 0


if __name__ == "__main__":
    sys.exit(main())
