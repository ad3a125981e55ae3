"""What ten streams cost whoever parses the DAG folder, on top of Airflow's own import.

    python -m benchmarks.dag_parsing [--rounds 5] [--streams 10]

Each round is a fresh process that has imported what any DAG imports, and whose heap is frozen, as Airflow's DAG
processor does before it forks the process that parses a file: else a collection of all that Airflow has imported may
fall into the measurement. `streams` is then the import of this package and the building of all DAGs, by the clock and
in seconds of CPU: the clock counts what else the machine does. Airflow's import is the other side, for the scale.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.fresh import run
from benchmarks.results import machine, show, spread, write

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=10)
    options = parser.parse_args()
    before = machine()
    sides: dict[str, list[float]] = {"airflow": [], "streams": [], "streams, CPU": []}
    with tempfile.TemporaryDirectory() as folder:
        streams = Path(folder) / "dags" / "streams"
        streams.mkdir(parents=True)
        example = (ROOT / "dags" / "streams" / "orders.yaml").read_text()
        for number in range(options.streams):
            (streams / f"orders-{number}.yaml").write_text(example.replace("name: orders", f"name: orders-{number}", 1))
        for _ in range(options.rounds):
            airflow, ours, busy, dags = run("parse", streams)
            if dags < options.streams:
                raise SystemExit(f"only {dags} DAGs came out of {options.streams} streams")
            sides["airflow"].append(airflow)
            sides["streams"].append(ours)
            sides["streams, CPU"].append(busy)
    found = {side: spread(values) for side, values in sides.items()}
    show(f"parsing {options.streams} streams (s)", found, {"streams p50 (s)": (found["streams"]["p50"], "<=", 0.1)})
    write("dag_parsing", {**found, "machine": before})
    return 0


if __name__ == "__main__":
    sys.exit(main())
