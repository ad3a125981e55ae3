"""`python -m demo`: start the stack, tell the four chapters, write the report."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from airflow_stream_provider.hooks.control import close_roots, control_root
from airflow_stream_provider.lifecycle.errors import StreamError
from demo.display import Display, summarise
from demo.environment import DemoEnvironment, lay_out
from demo.lag_picture import draw_lag
from demo.picture import draw
from demo.story import Story
from devstack.airflow import Airflow
from devstack.airflow_api import AirflowApi
from devstack.places import CONTROL_URL, HDFS, KAFKA, Storage, open_storage, stream_settings
from devstack.stack import LocalStack

YARN = "yarn"
INTERRUPTED = 130  # the shell's exit code after Ctrl-C
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PASSWORD_VARIABLE = "AIRFLOW_ADMIN_PASSWORD"
# For minutes instead of an hour: a shorter soak, and the old release stops as soon as the new one is accepted.
UPGRADE = {"soak": "15s", "keep_previous": "0s"}
# No scheduled watch: two cores are busy enough, and the demo measures the lag itself.
WATCH = {"schedule": None}
WORKER_CORES = 9  # for a holder, a standby and one that is ending: each needs a driver core and two executor cores


def main() -> int:
    """Run the demo and return its exit code: 0 if no order was lost and no upgrade duplicated one."""
    args = _arguments()
    started = time.monotonic()
    console = Console()
    # With Airflow's settings for logs every connection and request of theirs is told.
    for name in ("kafka", "hdfs"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for number in STOPPING:
        signal.signal(number, _interrupt)
    try:
        with contextlib.ExitStack() as until_the_end:
            stack = None
            try:
                with Display(console) as display:
                    storage = None
                    if args.attach:
                        environment = DemoEnvironment.at(
                            args.dags, AirflowApi(args.attach, "admin", os.environ[PASSWORD_VARIABLE])
                        )
                        # As WATCH says.
                        watch = "streams__watch"
                        environment.airflow.wait_for_dag(watch)
                        environment.airflow.pause(watch)
                    else:
                        folder = (args.report / "stack").absolute()
                        shutil.rmtree(folder, ignore_errors=True)
                        if args.on == YARN:
                            storage = until_the_end.enter_context(open_storage(HDFS, folder / "storage"))
                        stack = until_the_end.enter_context(_local(args.dags, folder, display, storage))
                        cluster = None if args.on == YARN else stack.cluster.connection
                        environment = DemoEnvironment.at(stack.airflow.dags_folder, stack.airflow.api, storage, cluster)
                    story = Story(environment, display.say, display.tell)
                    display.watch(story)
                    report = story.run(started)
                report.write(args.report / "report.json")
                draw(args.report / "report.png", story.watcher.commits, story.steps)
                draw_lag(args.report / "lag.png", story.lag.samples, story.steps, environment.spec.lag.limits)
                summarise(console, report)
                console.print(f"Written: {args.report}/report.json, report.png and lag.png")
                problems = story.problems(report)
            except StreamError as error:
                problems = [f"{type(error).__name__}: {error}"]
            for problem in problems:
                console.print(problem, style="bold red", markup=False, soft_wrap=True)
            if problems and not args.attach:
                console.print(f"The logs of drivers, tasks and servers are below {args.report}/stack.")
            if args.keep and stack is not None:
                _wait_for_ctrl_c(console, stack.airflow)
            return 1 if problems else 0
    except KeyboardInterrupt:
        console.print("Stopped.")
        return INTERRUPTED


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--keep", action="store_true", help="keep everything running until Ctrl-C")
    where.add_argument(
        "--attach",
        metavar="URL",
        help=f"use a running Airflow; its user is admin, the password is in ${PASSWORD_VARIABLE}",
    )
    parser.add_argument(
        "--on",
        choices=("standalone", YARN),
        default="standalone",
        help="the cluster; on yarn the control log is in Kafka, and checkpoints and releases are on HDFS",
    )
    parser.add_argument("--dags", type=Path, default=Path("dags"), help="the DAG folder with streams/orders.yaml")
    parser.add_argument(
        "--report", type=Path, help="folder for the report; default: build/demo, for yarn build/demo-yarn"
    )
    args = parser.parse_args()
    args.report = args.report or Path("build/demo-yarn" if args.on == YARN else "build/demo")
    return args


@contextlib.contextmanager
def _local(dags: Path, folder: Path, display: Display, storage: Storage | None) -> Iterator[LocalStack]:
    """Start the stack: on YARN if there is a storage for it, else on Spark's own cluster and in a folder."""
    own_dags = folder / "dags"
    own_dags.mkdir(parents=True)
    remote: dict[str, Any] = {}
    if storage is not None:
        remote = {
            "yarn": True,
            "libraries": storage.libraries,
            "core_site": storage.core_site,
            "variables": storage.variables,
        }

    def progress(name: str, done: int, total: int) -> None:
        display.say(f"fetching {name}, {f'{done} of {total} jars' if total else 'resolving its dependencies'}")

    display.say(f"starting Kafka, {'YARN' if storage else 'Spark'} and Airflow")
    with LocalStack(folder, dags_folder=own_dags, worker_cores=WORKER_CORES, progress=progress, **remote) as stack:
        # By this the demo itself finds a control log in Kafka, as Airflow does.
        os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps(stack.broker.connection)
        data = folder / "data"
        places = stream_settings(KAFKA, storage, stack.bootstrap_servers, data) if storage else {}
        lay_out(
            dags,
            own_dags,
            brokers=stack.bootstrap_servers,
            data=data,
            changes={"upgrade": UPGRADE, "conf": stack.cluster.conf, "watch": WATCH, **places},
        )
        if storage is not None:
            control_root(CONTROL_URL).make()
        yield stack
        _ignore_signals()
        close_roots()


def _wait_for_ctrl_c(console: Console, airflow: Airflow) -> None:
    console.print(
        f"\nAirflow runs at {airflow.url}, user {airflow.user}, password {airflow.password}. Ctrl-C stops everything."
    )
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            signal.pause()


def _interrupt(number: int, frame: FrameType | None) -> None:
    _ignore_signals()
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    # Another Ctrl-C must not interrupt the clean-up that follows.
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
