"""Find what a run has left behind: processes of drivers that do not hold, clones of rehearsals, temporary files."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path

import psutil

from airflow_stream_provider.checkpoint.clone import REHEARSAL
from airflow_stream_provider.checkpoint.files import Place
from airflow_stream_provider.checkpoint.location import files_of
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import StreamState

# A driver that was retired just now takes some seconds to exit, and living ones write temporary files all the time.
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 1.0


def lasting(look: Callable[[], set[str]], seconds: float = PATIENCE_SECONDS) -> set[str]:
    """Return what every look finds until none finds anything, or for so many seconds."""
    until = time.monotonic() + seconds
    left = look()
    while left and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
        left &= look()
    return left


def leftovers(
    state: StreamState,
    heartbeats: Mapping[str, Heartbeat],
    control: Path | None,
    releases: Place,
    checkpoints: Iterable[Place],
    allowed: Container[Place] = (),
) -> set[str]:
    """Return a sentence for everything that is there now and is not the holder's.

    No release is kept warm, so that at the end of a run only the holder's deployment may live. Temporary files that
    Spark itself leaves inside a checkpoint when it is killed are not among them.

    :param state: what the control log says.
    :param heartbeats: the last ones, by incarnation, also of drivers that have ended.
    :param control: the stream's folder in the control root; None: there is none.
    :param releases: the folder of the stream's releases.
    :param checkpoints: the folder of each query's checkpoint.
    :param allowed: what may lie there, as `half_published` says.
    :raises OSError: a storage does not answer.
    """
    folders = list(checkpoints)
    # Not by the package's own look, to which a storage that does not answer has none.
    clones = [path for each in folders for path in beginning(each.parent, f"{each.name}{REHEARSAL}")]
    temporary = _temporary(control, releases, folders)
    return {
        *_processes(state, heartbeats),
        *(f"{path} is a temporary file." for path in temporary if path not in allowed),
        *(f"{path} is a clone of a rehearsal." for path in clones),
    }


def _temporary(control: Path | None, releases: Place, checkpoints: Iterable[Place]) -> list[Place]:
    found = [*beginning(releases, "."), *(p for c in checkpoints for p in beginning(c.parent, f".{c.name}.owner."))]
    if control is not None:
        found += [*beginning(control / "incoming", ""), *beginning(control / "heartbeats", ".")]
    return found


def beginning(folder: Place, start: str) -> list[Place]:
    """Return what is in a folder, which may not be there, and has a name that begins so.

    :raises OSError: the storage does not answer.
    """
    try:
        names = files_of(folder).names(folder)
    except FileNotFoundError:
        return []
    return [folder / name for name in names if name.startswith(start)]


def _processes(state: StreamState, heartbeats: Mapping[str, Heartbeat]) -> list[str]:
    """Return the processes of all drivers but the holder's: JVM and Python, executors and what these have started."""
    holding = state.holding_deployment
    living = {holding.id} if holding is not None else set()
    gone = {i.id for i in state.incarnations.values() if i.state.terminal or i.deployment not in living}
    gone |= {name for name in heartbeats if deployment_of(name) not in living}
    beats = {name: heartbeats[name] for name in gone & heartbeats.keys()}
    applications = {beat.application_id: name for name, beat in beats.items()}
    applications.pop("", None)
    # One that has ended before it had a name, too.
    deployments = state.deployments.keys() - living
    drivers = {
        pid: name for name in gone & heartbeats.keys() for pid in (heartbeats[name].pid, heartbeats[name].jvm_pid)
    }
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            command = " ".join(process.cmdline())
            # The pid may be another process's by now.
            name = drivers.get(process.pid, "")
            owner = name if name and deployment_of(name) in command else ""
            owner = owner or next((each for each in deployments if each in command), "")
            if not owner and applications:
                where = f"{command} {process.cwd()}/"
                owner = next((name for id, name in applications.items() if f"{id}/" in where or f" {id} " in where), "")
            if owner:
                found.append(f"Process {process.pid} ({process.name()}) of {owner} lives on.")
    return found
