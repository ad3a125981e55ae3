"""How long an upgrade takes from the trigger to the end of its run, and how much of that is Airflow's own.

    python -m benchmarks.runbook [--rounds 3] [--soak 30]

Kafka, a Spark cluster and an Airflow on this machine, the example stream under 300 records/s, and `orders__upgrade`
triggered by the REST API. What the stream itself needs is read from the control log: from `submitted` to `standby` its
driver starts and rehearses; from `requested` to `acquired` it changes hands; then comes the soak. All else is
Airflow's own share: waiting for the scheduler and for triggers, starting tasks, and what our tasks do between, such as
`check`. The same run says so by task: how long after the one before it was begun, and how long it took.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_stream_provider.control import open_log
from airflow_stream_provider.lifecycle.record import Kind, Record
from benchmarks.results import machine, show, spread, write
from demo.environment import DemoEnvironment, create_topics, lay_out
from devstack.producer import Producer
from devstack.stack import LocalStack

DAG = "orders__upgrade"
RATE = 300
ROOT = Path(__file__).parents[1]


def stream_seconds(records: Sequence[Record], soak: float) -> dict[str, float]:
    """Return what the stream itself needed in one upgrade, by part.

    :param records: of the control log since the upgrade was triggered, oldest first.
    :param soak: seconds.
    """
    at = {record.kind: record.at for record in reversed(records)}
    return {
        "driver and rehearsal": at[Kind.STANDBY] - at[Kind.SUBMITTED],
        "hand-over": at[Kind.ACQUIRED] - at[Kind.REQUESTED],
        "soak": soak,
    }


def task_seconds(tasks: Sequence[Mapping[str, Any]], began: float) -> dict[str, dict[str, float]]:
    """Return for each task that ran how long after the one before it began, and how long it took.

    :param tasks: as Airflow's API has them.
    :param began: when the run was triggered, seconds since 1970.
    """
    ran = sorted(
        (_at(task["start_date"]), _at(task["end_date"]), str(task["task_id"]))
        for task in tasks
        if task["start_date"] and task["end_date"]
    )
    found, before = {}, began
    for start, end, name in ran:
        found[name] = {"after": round(start - before, 2), "took": round(end - start, 2)}
        before = max(before, end)
    return found


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def run_to_its_end(site: DemoEnvironment, version: str) -> str:
    """Trigger the DAG, and return the id of the run when it has succeeded."""
    run: str = site.airflow.trigger(DAG, {"version": version})
    if site.airflow.wait_for_run(DAG, run, 1800) != "success":
        raise SystemExit(f"The upgrade has failed: {site.airflow.task_states(DAG, run)}")
    return run


def upgrade(site: DemoEnvironment, version: str, soak: float) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Upgrade once; return the seconds by part, and by task."""
    log = open_log(site.spec.control, site.spec.name)
    seq = log.refresh().seq
    began = time.time()
    run = run_to_its_end(site, version)
    whole = _at(site.airflow.call("GET", f"dags/{DAG}/dagRuns/{run}")["end_date"]) - began
    log.refresh()
    parts = stream_seconds([record for record in log.records() if record.seq > seq], soak)
    return {"trigger to done": whole, **parts, "Airflow's own": whole - sum(parts.values())}, task_seconds(
        site.airflow.tasks(DAG, run), began
    )


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--soak", type=float, default=30.0, help="seconds of upgrade.soak")
    options = parser.parse_args()
    before = machine()
    sides: dict[str, list[float]] = {}
    tasks: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as root:
        dags = Path(root) / "dags"
        dags.mkdir()
        with LocalStack(Path(root) / "stack", dags_folder=dags, worker_cores=9) as stack:
            lay_out(
                ROOT / "dags",
                dags,
                brokers=stack.bootstrap_servers,
                data=Path(root) / "data",
                changes={
                    "upgrade": {"soak": f"{options.soak:.0f}s", "keep_previous": "0s"},
                    "conf": stack.cluster.conf,
                },
            )
            site = DemoEnvironment.at(dags, stack.airflow.api)
            create_topics(site.brokers)
            site.airflow.wait_for_dag(DAG)
            site.airflow.unpause(DAG)
            with Producer(site.brokers, "orders", RATE):
                # The first release has nobody to take over from.
                run_to_its_end(site, "0")
                for number in range(options.rounds):
                    found, by_task = upgrade(site, str(number + 1), options.soak)
                    for side, seconds in found.items():
                        sides.setdefault(side, []).append(seconds)
                    tasks.append(by_task)
    spreads = {side: spread(values) for side, values in sides.items()}
    whole, own = spreads["trigger to done"]["p50"], spreads["Airflow's own"]["p50"]
    show(f"an upgrade with a soak of {options.soak:.0f} s (s)", spreads, {})
    by_task = {
        f"{name}, {what}": spread([each[name][what] for each in tasks if name in each])
        for name in tasks[-1]
        for what in ("after", "took")
    }
    show("its tasks: how long after the one before, and how long it took (s)", by_task, {})
    print(f"Airflow's own share: {own / whole:.2f} with the soak, {own / (whole - options.soak):.2f} without")
    share = {"with_soak": round(own / whole, 3), "without_soak": round(own / (whole - options.soak), 3)}
    write("runbook", {**spreads, "share": share, "tasks": tasks, "machine": before})
    return 0


if __name__ == "__main__":
    sys.exit(main())
