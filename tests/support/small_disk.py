"""Test a control log on a file system that fails. Run it in its own mount namespace:

unshare --user --map-root-user --mount python -m tests.support.small_disk FOLDER full|read_only|unmounted
"""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from devstack.drivers import wait_for
from tests.support.control_root import new_log

OTHERS = ("writer-0", "writer-1")


def refused(act: Callable[[], object]) -> ControlUnavailable:
    try:
        act()
    except ControlUnavailable as error:
        return error
    raise AssertionError("it went through")


def append(log: ControlLog) -> int:
    return log.propose(lambda state: make_record("noted", "main", text="x" * 3000)).seq


def full(log: ControlLog, disk: Path, folder: Path) -> None:
    """Two processes append while the disk becomes full and is emptied again, three times."""
    said = [folder / name for name in OTHERS]
    command = [sys.executable, "-m", "tests.support.append_on", disk.as_uri(), "orders"]
    writers = []
    for path in said:
        with open(path, "wb") as out:
            writers.append(subprocess.Popen([*command, path.name, "0.005"], stdout=out))
    try:
        for _ in range(3):
            wait_for_more(said, str.isdecimal)
            with open(disk / "filler", "wb", buffering=0) as filler:
                fill(filler)
                wait_for_more(said, ControlUnavailable.__name__.__eq__)
            (disk / "filler").unlink()
        wait_for_more(said, str.isdecimal)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    lines = [line for path in said for line in path.read_text().splitlines()]
    assert {line for line in lines if not line.isdecimal()} == {"ControlUnavailable"}
    claims = [int(line) for line in lines if line.isdecimal()]
    assert len(set(claims)) == len(claims)


def wait_for_more(said: list[Path], wanted: Callable[[str], bool]) -> None:
    """Wait until each writer has printed one more such line."""

    def count() -> list[int]:
        return [sum(wanted(line) for line in path.read_text().splitlines()) for path in said]

    before = count()
    wait_for("each writer to say more", lambda: all(now > then for now, then in zip(count(), before, strict=True)))


def fill(filler: FileIO) -> None:
    """Write until the disk is full."""
    try:
        while True:
            filler.write(b"\0" * 4096)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def read_only(log: ControlLog, disk: Path, folder: Path) -> None:
    seq = append(log)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert "Read-only file system" in str(refused(lambda: append(log)))
    refused(lambda: log.beat("orders-1.00000001", Heartbeat()))
    assert log.refresh().seq == seq
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


def unmounted(log: ControlLog, disk: Path, folder: Path) -> None:
    append(log)
    subprocess.run(["mount", "--move", str(disk), str(folder / "elsewhere")], check=True)
    for act in (log.refresh, lambda: append(log), lambda: log.beat("orders-1.00000001", Heartbeat()), log.heartbeats):
        refused(act)
    subprocess.run(["mount", "--move", str(folder / "elsewhere"), str(disk)], check=True)


def main(scratch: str, trouble: str) -> None:
    folder = Path(scratch)
    disk = folder / "disk"
    disk.mkdir()
    (folder / "elsewhere").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0770", "tmpfs", str(disk)], check=True)
    log = new_log(disk.as_uri(), "orders")
    append(log)
    {"full": full, "read_only": read_only, "unmounted": unmounted}[trouble](log, disk, folder)

    last = append(log)
    assert [record.seq for record in log.records()] == list(range(1, last + 1))
    stream = disk / "orders"
    assert sorted(p.name for p in (stream / "log").iterdir()) == [f"{seq:020d}.json" for seq in range(1, last + 1)]
    assert list((stream / "incoming").iterdir()) == []
    print("well again")


if __name__ == "__main__":
    main(*sys.argv[1:])
