"""The application that spark-submit runs: reads the control log, installs the gate, runs the user's script unmodified.

    launcher.py --control URL --stream NAME --deployment ID [--storage URL --release HASH] -- SCRIPT ARGS...

It is copied beside the script into the release's folder; the rest of the runtime travels as a zip of py-files. It first
copies that folder to one that only its own user can change, imports and runs only that copy, and verifies the copy: the
verified files are those that run. Only the folder's modes protect the files that Spark itself reads there (this file,
and the py-files that it sends to the executors).

With ``--storage`` this file is alone: spark-submit has fetched it by its URL. It then fetches the rest of the release
through the JVM that has started it, checks it against the release's hash before it imports anything of it, and gives
Spark its own copies of the py-files for the executors.
"""

from __future__ import annotations

import sys

# Python has put the release's folder at the head of its path: nothing in it may stand in for the standard library.
if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

import argparse
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_stream_provider.control import ControlLog
    from airflow_stream_provider.lifecycle.errors import StreamError
    from airflow_stream_provider.lifecycle.policy import Policy
    from airflow_stream_provider.lifecycle.release import Release
    from airflow_stream_provider.runtime.ownership import OtherDrivers

MANIFEST = "manifest.json"
"""Beside the files of a release that is stored elsewhere than in a folder."""

_COPY = "airflow-stream-release-"
_RUNTIME_ZIP = "airflow_stream_runtime.zip"  # control.releases.RUNTIME_ZIP, which cannot be imported yet


def main(argv: Sequence[str], folder: Path) -> int:
    """Run one incarnation from start to end and return the process's exit code.

    :param folder: holds the files of the release; only this user can change it.
    :raises StreamError: they are not those that were published, or the script named is not the release's.
    """
    options = _options(argv)

    from airflow_stream_provider.control.releases import verify
    from airflow_stream_provider.lifecycle.errors import StreamError
    from airflow_stream_provider.runtime.lease_watchdog import end_with_jvm
    from airflow_stream_provider.runtime.ownership import OtherDrivers
    from airflow_stream_provider.runtime.places import open_control_log, within_reach

    if "PYSPARK_GATEWAY_PORT" in os.environ:  # the JVM has started this process, and gets SIGTERM alone
        end_with_jvm(os.getppid())
    log = open_control_log(options.control, options.stream, options.brokers)
    deployment = within_reach(log.refresh).deployments.get(options.deployment)
    if deployment is None or deployment.ended:
        # A late relaunch of a deployment that has ended: import nothing, touch nothing (rule 9).
        found = deployment.ended.value if deployment and deployment.ended else "not declared"
        print(f"Deployment {options.deployment} is {found}: nothing to do.")
        return 0
    incarnation = f"{options.deployment}.{secrets.token_hex(4)}"
    others = OtherDrivers(log, incarnation)
    if within_reach(others.twin_lives):
        print(f"Another driver of {options.deployment} is alive: this one exits.")
        return 0
    release = deployment.release
    if options.script != release.application:
        raise StreamError(
            f"{options.deployment} runs {release.application}, and not {options.script}, which this driver was given.",
            next_step="Find out who submitted this driver: Airflow does not do that.",
        )
    verify(folder, release)
    policy = replace(deployment.policy, adopts=deployment.adopts)
    return _run(log, within_reach(log.store.origin), others, incarnation, release, policy, options, folder)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="launcher.py")
    parser.add_argument("--control", required=True, help="control URL, such as file:///data/streams")
    parser.add_argument("--brokers", default="", help="of a control log in Kafka: host:port,…")
    parser.add_argument("--stream", required=True)
    parser.add_argument("--deployment", required=True)
    parser.add_argument("--storage", default="", help="URL of the storage that the release is fetched from")
    parser.add_argument("--release", default="", help="hash of the release that is fetched")
    parser.add_argument("script", help="the script's name in the release's folder")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to the script")
    return parser.parse_args(argv)


def _log_to_stderr() -> None:
    """Log with a handler of our own: the root logger is the script's to set up."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    ours = logging.getLogger("airflow_stream_provider")
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    # Each turn of the agent calls the JVM; a script that wants to see calls sets this level itself.
    logging.getLogger("py4j").setLevel(logging.WARNING)


def _run(
    log: ControlLog,
    origin: str,
    others: OtherDrivers,
    incarnation: str,
    release: Release,
    policy: Policy,
    options: argparse.Namespace,
    folder: Path,
) -> int:
    from airflow_stream_provider import runtime
    from airflow_stream_provider.checkpoint.location import reach
    from airflow_stream_provider.control.releases import LOG_SIZE
    from airflow_stream_provider.lifecycle.ids import application_name
    from airflow_stream_provider.runtime import driver_folders, places, refused
    from airflow_stream_provider.runtime.adopted_logs import POLL_SECONDS
    from airflow_stream_provider.runtime.agent import Agent, AgentThread
    from airflow_stream_provider.runtime.background import SideThread
    from airflow_stream_provider.runtime.control_client import ControlClient
    from airflow_stream_provider.runtime.driver_folders import LOG_SECONDS, keep_logs_small
    from airflow_stream_provider.runtime.driver_process import HOSTS_SECONDS, DriverProcess
    from airflow_stream_provider.runtime.gate import Gate
    from airflow_stream_provider.runtime.guarded_files import GuardedFiles
    from airflow_stream_provider.runtime.jvm import jvm, wait_for_answers
    from airflow_stream_provider.runtime.kafka_client import ConsumerGroup
    from airflow_stream_provider.runtime.managed_query import IDLE_SECONDS
    from airflow_stream_provider.runtime.offsets_group import PACE_SECONDS
    from airflow_stream_provider.runtime.ownership import MARK_SECONDS, Ownership
    from airflow_stream_provider.runtime.places import AnsweringStore, open_owners, within_reach
    from airflow_stream_provider.runtime.query_group import QueryGroup
    from airflow_stream_provider.runtime.rehearsal import Rehearsal
    from airflow_stream_provider.runtime.script import run_to_end
    from airflow_stream_provider.runtime.surroundings import Ports
    from airflow_stream_provider.runtime.vitals import VITALS_SECONDS

    driver_folders.install(folder.parent)
    # Six tries fit into a lease, and three into the half of it after which a holder pauses.
    log.store = AnsweringStore(log.store, policy.lease_seconds / 6)
    name = application_name(options.stream, release.version, options.deployment, origin)
    owners = open_owners(options.control, options.brokers)
    ownership = Ownership(options.stream, options.control, owners, origin)
    process = DriverProcess(ownership, name, policy.lease_seconds, adopts=policy.adopts)
    reach(places.storage())
    gate = Gate()
    thread = AgentThread()
    rehearsal = Rehearsal(gate, policy, incarnation, process, others)
    control = ControlClient(log, incarnation)
    agent = Agent(
        control,
        policy,
        Ports(
            queries=QueryGroup(gate, process.claim, policy.loss_seconds, process.vitals.note),
            process=process,
            rehearse=rehearsal.run,
            compare=rehearsal.compare,
            stale=rehearsal.stale,
            to_come=rehearsal.to_come,
            spawn=thread.spawn,
        ),
        group=ConsumerGroup(policy.offsets_group, lambda: gate.queries) if policy.offsets_group else None,
    )

    def unusable(error: StreamError) -> None:
        agent.script_failed(str(error), error)

    def hold() -> runtime.Hold | None:
        state = control.state
        if not agent.holds():
            return None
        return runtime.Hold(origin, state.epoch, incarnation, policy.lease_seconds)

    runtime.managed = runtime.Managed(options.stream, hold)
    gate.install(agent.guard, unusable)
    gate.leave_out(policy.skip)
    refused.install(unusable)
    guarded = GuardedFiles(options.stream, lambda: gate.holds, lambda: control.state.last_driver)
    guarded.install(within_reach(lambda: control.former_queries(control.state)))
    side = SideThread()
    side.every(MARK_SECONDS, "owner's mark", lambda: ownership.put_marks_back(agent.holds, unusable))
    side.every(POLL_SECONDS, "logs to adopt", process.adopted.look)
    side.every(HOSTS_SECONDS, "hosts of executors", process.hosts.ask)
    log_size = jvm().org.apache.spark.SparkConf().getSizeAsBytes(LOG_SIZE, "0")
    if log_size:
        side.every(LOG_SECONDS, "driver's log", partial(keep_logs_small, log_size))
    side.every(VITALS_SECONDS, "vitals", lambda: process.vitals.read(gate.queries))
    side.every(IDLE_SECONDS, "script's listeners", gate.say_idle)
    side.every(PACE_SECONDS, "offsets group", agent.offsets.turn)
    side.start()
    process.on_terminate(lambda: thread.terminate(agent))
    thread.start(agent)

    wait_for_answers()
    run_to_end(folder / release.application, release.arguments, gate, agent, lambda: thread.terminate(agent))
    return 0


def private_copy(folder: Path) -> Path:
    """Copy a release's folder to one that only this user can change; import from that one from now on.

    Copies of drivers that have ended, however they did, are removed.
    """
    # Symbolic links stay what they are, so that `verify` refuses them.
    copy = Path(shutil.copytree(folder, _private_folder() / "release", symlinks=True))
    here = os.path.realpath(folder)
    for number, entry in enumerate(sys.path):
        if os.path.dirname(os.path.realpath(entry)) == here:
            sys.path[number] = str(copy / os.path.basename(entry))
    return copy


def fetched_copy(url: str, release: str) -> Path:
    """Fetch a release's folder to one that only this user can change; import from that one from now on.

    It is checked against the release's hash with nothing but the standard library, as nothing of it was imported yet.
    The executors get the copies of its py-files from the driver, however the script makes its session.

    :param url: of the release's folder, in any file system that Hadoop can read here.
    :param release: its hash.
    :raises RuntimeError: it cannot be read, or is not what was published.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

    SparkContext._ensure_initialized()  # connects to the JVM; the SparkContext is created by the script
    jvm: Any = SparkContext._jvm
    copy = _private_folder() / "release"
    copy.mkdir()
    try:
        _fetch(jvm, url, copy)
    except Py4JJavaError as error:
        found = str(error.java_exception.toString()).partition("\n")[0]
        raise RuntimeError(
            f"The release in {url} cannot be fetched: {found:.1000}. Give the driver's user the right to list and read "
            "that folder, and see that this machine reaches it."
        ) from None
    settings = _check_hash(copy, url, release)
    files = [str(copy / name) for name in (_RUNTIME_ZIP, *settings["py_files"])]
    sys.path[:0] = [path for path in files if not path.endswith(".py")]  # modules are found beside the script
    system = jvm.java.lang.System
    for name in ("spark.submit.pyFiles", "spark.files"):  # as --py-files sets them; every new SparkConf reads them
        system.setProperty(name, ",".join(filter(None, [*files, system.getProperty(name)])))
    return copy


def _fetch(jvm: Any, url: str, copy: Path) -> None:
    hadoop = jvm.org.apache.hadoop.fs
    conf = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(jvm.org.apache.spark.SparkConf())
    folder = hadoop.Path(url)
    files = folder.getFileSystem(conf)
    for found in files.listStatus(folder):
        name = found.getPath().getName()
        if not found.isFile() or name in ("", ".", "..") or os.path.basename(name) != name:
            raise RuntimeError(f"{name!r} in {url} is no file of a release. Find out who put it there, and remove it.")
        files.copyToLocalFile(False, found.getPath(), hadoop.Path(str(copy / name)), True)
    # Out of Hadoop's cache: one that the script asks for has the script's settings.
    files.close()


def _check_hash(copy: Path, url: str, release: str) -> dict[str, Any]:
    """Check the files against the hash, remove the manifest, and return what it says of the release."""
    # One at a time: each may be large.
    contents = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in copy.iterdir()}
    try:
        del contents[MANIFEST]
        manifest = json.loads((copy / MANIFEST).read_bytes())
        settings: dict[str, Any] = manifest["settings"]
        same = manifest["files"] == contents
        # As control.releases.release_hash, which cannot be imported yet.
        same = same and hashlib.sha256(json.dumps([settings, contents], sort_keys=True).encode()).hexdigest() == release
        if same and set(contents) >= {_RUNTIME_ZIP, *settings["py_files"]}:
            (copy / MANIFEST).unlink()
            return settings
    except (KeyError, ValueError, TypeError, AttributeError):
        pass
    raise RuntimeError(
        f"The files in {url} are not those that were published: one is missing, has changed or does not belong there. "
        "Find out who changed them, move that folder away, and deploy the release again."
    )


def _private_folder() -> Path:
    """Return a new folder that only this user can change, which is removed some time after this process has ended."""
    for left in Path(tempfile.gettempdir()).glob(f"{_COPY}*"):
        _remove_if_its_driver_has_ended(left)
    private = Path(tempfile.mkdtemp(prefix=_COPY))
    # Locked until this process ends, and from the moment at which others see it.
    lock = os.open(private / "new", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(private / "new", private / "lock")
    # systemd-tmpfiles removes what is ten days old, but nothing from a folder that is locked, which NFS does not allow.
    with contextlib.suppress(OSError):
        fcntl.flock(os.open(private, os.O_RDONLY), fcntl.LOCK_EX)
    return private


def _remove_if_its_driver_has_ended(private: Path) -> None:
    try:
        found = os.lstat(private)
        if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
            return
        lock = os.open(private / "lock", os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(private, ignore_errors=True)
        finally:
            os.close(lock)
    except OSError:
        return  # its driver lives, or is only starting


if __name__ == "__main__":
    _log_to_stderr()
    started = _options(sys.argv[1:])
    if started.storage:
        where = f"{started.storage}/{started.stream}/releases/{started.release}"
        sys.exit(main(sys.argv[1:], fetched_copy(where, started.release)))
    sys.exit(main(sys.argv[1:], private_copy(Path(__file__).parent)))
