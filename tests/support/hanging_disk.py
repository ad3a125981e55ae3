"""Run a driver's agent on a control folder that hangs. Run it in its own mount namespace:

unshare --user --map-root-user --mount python -m tests.support.hanging_disk FOLDER holder|standby
"""

from __future__ import annotations

import sys
from pathlib import Path

from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.root import make_root
from airflow_stream_provider.runtime.places import AnsweringStore
from devstack.dead_mount import hanging
from tests.support.fake_driver import FakeDriver
from tests.support.story import NEW, OLD, PREPARED, RUNNING

SOON, NEVER = 0.2, 600.0
STORIES = {"holder": (OLD, RUNNING, ["pause", "resume"]), "standby": (NEW, PREPARED, [])}


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
