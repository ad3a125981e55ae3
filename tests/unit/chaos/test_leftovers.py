"""What is left behind: real processes and real folders."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import psutil
import pytest

from airflow_stream_provider.checkpoint import rehearsal_folder
from airflow_stream_provider.checkpoint.files import Place, RemotePath
from airflow_stream_provider.checkpoint.local_files import LocalFiles
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from chaos import leftovers as module
from chaos.leftovers import lasting, leftovers
from devstack.control_folder import folder_of
from devstack.drivers import wait_for
from tests.support.pretended_webhdfs import hdfs
from tests.support.story import HANDED_OVER, NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, PREPARED, fenced, play, retired

__all__ = ["hdfs"]

RETIRED = [*PREPARED, retired(NEW_DEPLOYMENT)]
SLEEP = "import time; time.sleep(600)"


@pytest.fixture(autouse=True)
def pids(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The processes that a test sees: this one, and those that it starts, whatever else runs on this machine."""
    seen, everybody = {os.getpid()}, psutil.process_iter
    monkeypatch.setattr(psutil, "process_iter", lambda: (each for each in everybody() if each.pid in seen))
    return seen


@pytest.fixture
def start(tmp_path: Path, pids: set[int]) -> Iterator[Callable[..., int]]:
    """Starts a process with these words in its command line, in a folder."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, folder: Path = tmp_path) -> int:
        started.append(subprocess.Popen([sys.executable, "-c", SLEEP, *words], cwd=folder))
        pids.add(started[-1].pid)
        # The kernel says that it runs before it has the words.
        wait_for("its command line", psutil.Process(started[-1].pid).cmdline)
        return started[-1].pid

    yield begin
    for process in started:
        process.kill()
        process.wait()


def left(log: ControlLog, records: list[Record], tmp_path: Path, **beats: Heartbeat) -> set[str]:
    names = {"old": OLD, "new": NEW}
    found, folder = {names[n]: beat for n, beat in beats.items()}, folder_of(log)
    return leftovers(play(records), found, folder, folder / "releases", [tmp_path / "data" / "enrich"])


def test_a_folder_as_it_should_be_has_nothing_left(log: ControlLog, tmp_path: Path) -> None:
    log.beat(OLD, Heartbeat(counter=1))
    assert left(log, PREPARED, tmp_path) == set()


def test_clones_and_temporary_files(log: ControlLog, tmp_path: Path) -> None:
    query = tmp_path / "data" / "enrich"
    Path(str(rehearsal_folder(query, NEW))).mkdir(parents=True)
    places = [
        folder_of(log) / "incoming" / "00000000000000000007.json.1a2b",
        folder_of(log) / "incoming" / f"new.{OLD}.json.1a2b",
        folder_of(log) / "releases" / ".1a2b.3c4d",
        query.parent / ".enrich.owner.1a2b",
    ]
    for place in places:
        place.write_text("")
    (query.parent / "enrich.owner").write_text("")
    # Spark's own: it leaves them, and reads past them.
    (query / "offsets").mkdir(parents=True)
    (query / "offsets" / ".7.1a2b.tmp").write_text("")
    assert left(log, PREPARED, tmp_path) == {
        f"{rehearsal_folder(query, NEW)} is a clone of a rehearsal.",
        *(f"{place} is a temporary file." for place in places),
    }


def test_the_driver_of_a_deployment_that_has_ended(log: ControlLog, tmp_path: Path, start: Callable[..., int]) -> None:
    pid = start("--conf", f"spark.app.name=orders [{NEW_DEPLOYMENT}]")
    [says] = left(log, RETIRED, tmp_path, new=Heartbeat())
    assert says.startswith(f"Process {pid} (")
    assert says.endswith(f"of {NEW_DEPLOYMENT} lives on.")
    assert left(log, HANDED_OVER, tmp_path, new=Heartbeat()) == set()


@pytest.mark.parametrize("records", [PREPARED, [*PREPARED[:-1], retired(NEW_DEPLOYMENT)]])
def test_a_driver_that_nobody_wants_and_one_that_ended_before_it_had_a_name(
    records: list[Record], log: ControlLog, tmp_path: Path, start: Callable[..., int]
) -> None:
    pid = start("--conf", f"spark.app.name=orders [{NEW_DEPLOYMENT}]")
    [says] = left(log, records, tmp_path)
    assert says.startswith(f"Process {pid} (")


def test_a_driver_that_was_fenced_by_its_pid_but_not_another_process_that_has_it_now(
    log: ControlLog, tmp_path: Path, start: Callable[..., int]
) -> None:
    records = [*PREPARED, fenced(OLD)]
    pid = start("of", OLD)
    [says] = left(log, records, tmp_path, old=Heartbeat(pid=pid))
    assert f"of {OLD} lives on" in says
    assert left(log, records, tmp_path, old=Heartbeat(pid=os.getpid())) == {says.replace(OLD, OLD_DEPLOYMENT)}


def test_executors_and_what_they_started_of_an_application_whose_driver_has_ended(
    log: ControlLog, tmp_path: Path, start: Callable[..., int]
) -> None:
    folder = tmp_path / "work" / "app-20260101-0007" / "0"
    folder.mkdir(parents=True)
    pids = {start("--app-id", "app-20260101-0007", "--worker-url", "x"), start("daemon", folder=folder)}
    start("--app-id", "app-20260101-00078", "--worker-url", "x")
    found = left(log, RETIRED, tmp_path, new=Heartbeat(application_id="app-20260101-0007"))
    assert {int(says.split()[1]) for says in found} == pids
    assert left(log, HANDED_OVER, tmp_path, new=Heartbeat(application_id="app-20260101-0007")) == set()


def test_only_what_every_look_finds_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.0)
    looks = iter([{"a"}, {"b"}])
    assert lasting(lambda: next(looks)) == set()
    assert lasting(lambda: {"b"}, seconds=0.0) == {"b"}


def test_a_storage_that_answers_only_at_first_hides_no_clone(tmp_path: Path) -> None:
    class AnswersTwice(LocalFiles):
        def __init__(self) -> None:
            self.asked = 0

        def names(self, folder: Place, *, large: bool = False) -> list[str]:
            self.asked += 1
            if self.asked > 2:
                raise OSError("it does not answer")
            return []

    root = RemotePath("hdfs://namenode", PurePosixPath("/"), AnswersTwice())
    with pytest.raises(OSError, match="does not answer"):
        leftovers(play(PREPARED), {}, None, root / "releases", [root / "checkpoints" / "enrich"])
