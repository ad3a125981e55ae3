"""The application that spark-submit runs: reads the control log, installs the gate, runs the user's script unmodified.

    launcher.py --control URL --stream NAME --deployment ID -- SCRIPT ARGS...

It is copied beside the script into the release's folder; the rest of the runtime travels as a zip of py-files.
"""

from __future__ import annotations

import argparse
import logging
import runpy
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_stream_provider.control import ControlLog
    from airflow_stream_provider.lifecycle.policy import Policy
    from airflow_stream_provider.lifecycle.release import Release


def main(argv: Sequence[str]) -> int:
    """Run one incarnation from start to end and return the process's exit code."""
    parser = argparse.ArgumentParser(prog="launcher.py")
    parser.add_argument("--control", required=True, help="control URL, such as file:///data/streams")
    parser.add_argument("--stream", required=True)
    parser.add_argument("--deployment", required=True)
    parser.add_argument("script", help="the script's name in the release's folder")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to the script")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)

    from airflow_stream_provider.control import open_log
    from airflow_stream_provider.control.releases import verify

    log = open_log(options.control, options.stream)
    deployment = log.refresh().deployments.get(options.deployment)
    if deployment is None or deployment.ended:
        # A late relaunch of a deployment that has ended: import nothing, touch nothing (rule 9).
        found = deployment.ended.value if deployment and deployment.ended else "not declared"
        print(f"Deployment {options.deployment} is {found}: nothing to do.")
        return 0
    incarnation = f"{options.deployment}.{secrets.token_hex(4)}"
    if _twin_lives(log, incarnation):
        print(f"Another driver of {options.deployment} is alive: this one exits.")
        return 0
    verify(log.store.folder, deployment.release)
    return _run(log, incarnation, deployment.release, deployment.policy, options)


def _run(log: ControlLog, incarnation: str, release: Release, policy: Policy, options: argparse.Namespace) -> int:
    from airflow_stream_provider.runtime.agent import Agent
    from airflow_stream_provider.runtime.agent_thread import AgentThread
    from airflow_stream_provider.runtime.consumer_group import ConsumerGroup
    from airflow_stream_provider.runtime.control_client import ControlClient
    from airflow_stream_provider.runtime.driver_process import DriverProcess
    from airflow_stream_provider.runtime.gate import Gate
    from airflow_stream_provider.runtime.ports import Ports
    from airflow_stream_provider.runtime.query_group import QueryGroup
    from airflow_stream_provider.runtime.rehearsal import Rehearsal

    name = f"{options.stream} {release.version} [{options.deployment}]"
    process = DriverProcess(options.stream, options.control, name, policy.lease_seconds)
    gate = Gate()
    thread = AgentThread()
    agent = Agent(
        ControlClient(log, incarnation),
        policy,
        Ports(
            queries=QueryGroup(gate, process.claim),
            process=process,
            rehearse=Rehearsal(gate, policy, incarnation, process).run,
            spawn=thread.spawn,
        ),
        group=ConsumerGroup(policy.offsets_group, lambda: gate.queries) if policy.offsets_group else None,
    )
    gate.install(agent.guard)
    process.on_terminate(lambda: thread.terminate(agent))
    thread.start(agent)

    script = Path(release.folder(log.store.folder)) / options.script
    sys.argv = [str(script), *options.arguments]
    sys.path.insert(0, str(script.parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            agent.script_failed(f"The script left with code {error.code}", error)
    except BaseException as error:  # noqa: BLE001 - recorded in the control log before the process ends
        agent.script_failed("The script failed", error)
    if not gate.queries:
        agent.script_failed("The script ended without starting a query", RuntimeError("no query was started"))
    gate.script_waits()
    gate.await_all()
    agent.script_finished()
    return 0


def _twin_lives(log: ControlLog, incarnation: str) -> bool:
    """Whether another driver of this deployment is alive; waits up to 13 s.

    There is one when the submission was repeated, or when an old driver is still ending.
    """
    deployment = incarnation.rpartition(".")[0]

    def counters() -> dict[str, int]:
        beats = log.heartbeats().items()
        return {name: beat.counter for name, beat in beats if name.startswith(f"{deployment}.")}

    first = counters()
    if not first:
        return False
    # An orphan's Python ends within two seconds; a counter that grows after ten belongs to a live driver.
    time.sleep(10)
    middle = counters()
    time.sleep(3)
    return any(count > middle.get(name, count) for name, count in counters().items() if name in first)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
