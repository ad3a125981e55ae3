"""Run a driver's agent on a control folder that hangs. Run it in its own mount namespace:

unshare --user --map-root-user --mount python -m tests.support.hanging_disk FOLDER holder|standby

The folder hangs as on a hard-mounted NFS server that is away: it lies under a FUSE mount whose server never answers.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.root import make_root
from airflow_stream_provider.runtime.answering_store import AnsweringStore
from tests.support.fake_driver import FakeDriver
from tests.support.story import NEW, OLD, PREPARED, RUNNING

SOON, NEVER = 0.2, 600.0
MNT_DETACH = 2
STORIES = {"holder": (OLD, RUNNING, ["pause", "resume"]), "standby": (NEW, PREPARED, [])}


@contextmanager
def hanging(folder: Path) -> Iterator[None]:
    """Let every use of this folder hang until the end; then it is there as before."""
    libc = ctypes.CDLL(None, use_errno=True)
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"hanging", os.fsencode(folder), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    try:
        yield
    finally:
        os.close(server)  # what hangs fails now
        libc.umount2(os.fsencode(folder), MNT_DETACH)


def main(scratch: str, story: str) -> None:
    root = Path(scratch) / "control"
    make_root(root.as_uri())
    below = FilesStore(root / "orders")
    below.initialise()
    name, records, did = STORIES[story]
    store = AnsweringStore(below, NEVER)
    driver = FakeDriver(name, records, store)
    if story == "holder":
        driver.running()
    driver.turn()
    store._seconds = SOON
    with hanging(root):
        for _ in range(4):
            driver.clock.now += 16.0
            driver.turn()
        assert driver.did == did[:1], driver.did
    store._seconds = NEVER
    driver.turn()
    assert driver.did == did, driver.did
    print("well again")


if __name__ == "__main__":
    main(*sys.argv[1:])
