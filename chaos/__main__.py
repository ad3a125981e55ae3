"""`python -m chaos`: a run; with a control folder in a user and mount namespace of our own, where that can fail."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from rich.console import Console

from airflow_stream_provider.lifecycle.errors import StreamError
from devstack.places import FILE, HDFS, KAFKA, Pair

INTERRUPTED = 130  # the shell's exit code after Ctrl-C
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INSIDE = "CHAOS_INSIDE"
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


def main() -> int:
    """Run, and return the exit code: 0 when everything is as it must be, else 1."""
    args = _arguments()
    pair = Pair(args.control, args.storage)
    if pair.control == FILE and INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp(NAMESPACE[0], [*NAMESPACE, sys.executable, "-m", "chaos", *sys.argv[1:]])
    # Only here: what a namespace of our own is not needed for must not be slow to refuse.
    from chaos.matrix import empty, happened, planned, possible
    from chaos.run import Run

    # Airflow has the log of a process begin at INFO, where Kafka's client has a line for each connection.
    logging.getLogger("kafka").setLevel(logging.WARNING)
    console = Console()
    started = time.monotonic()

    def say(line: str) -> None:
        seconds = int(time.monotonic() - started)
        console.print(f"{seconds // 60:3}:{seconds % 60:02} {line}", markup=False, highlight=False, soft_wrap=True)

    for number in STOPPING:
        signal.signal(number, _interrupt)
    first = [name.strip() for name in args.cells.split(",") if name.strip()]
    where = args.folder / "run", args.folder / "report.json"
    run = Run(args.seed, args.minutes, args.rate, first, *where, say, pair, args.sink == "postgres")
    try:
        planned(first, pair)  # refused before anything is started
        report = run.carry_out()
    except StreamError as error:
        console.print(f"[bold red]{type(error).__name__}[/]:", str(error), soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("Stopped.")
        return INTERRUPTED
    console.print(report.table())
    never, every = empty(happened(run.cells, pair), pair), possible(pair)
    say(f"{len(never)} of {len(every)} cells of the matrix have not happened in any run: python -m chaos.matrix")
    say(f"{len(report.problems)} problems; written: {run.report}; again: {run.replay}")
    return 1 if report.problems or (args.all_cells and never) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long faults happen; default 5")
    parser.add_argument("--seed", type=int, default=1, help="the plan is drawn from it; default 1")
    parser.add_argument("--rate", type=int, default=200, help="orders per second; default 200")
    parser.add_argument("--control", choices=(FILE, KAFKA), default=FILE, help="where the control log is; default file")
    parser.add_argument("--storage", choices=(FILE, HDFS), default=FILE, help="where the files are; default file")
    parser.add_argument("--sink", choices=("", "postgres"), default="", help="also write a table, exactly once")
    parser.add_argument("--cells", default="", help="cells of the matrix to begin with, with commas between them")
    parser.add_argument("--all-cells", action="store_true", help="fail when a cell has not happened in any run")
    parser.add_argument("--folder", type=Path, default=Path("build/chaos"), help="folder for run and report")
    return parser.parse_args()


def _interrupt(number: int, frame: FrameType | None) -> None:
    for each in STOPPING:  # another Ctrl-C must not interrupt the clean-up that follows
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
