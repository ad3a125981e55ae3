"""Let the disk of a broker become full that has a control log. Run it in its own mount namespace:

unshare --user --map-root-user --mount python -m tests.support.small_broker FOLDER
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from devstack.kafka_cluster import KafkaCluster
from tests.support.jvm_drivers import Driver
from tests.support.log_in_topic import log_in_topic
from tests.support.small_disk import fill
from tests.support.story import RUNNING, declared, write

TOPIC, SIZE, BEATEN = "streams.orders", "48m", "beaten"
SENTENCE = "he broker that leads it cannot write to its disk, which may be full"
# The deployments whose records Kafka has acknowledged to Airflow.
acknowledged: set[str] = set()


def told(log: ControlLog) -> list[tuple[int, str]]:
    log.refresh()
    return [(record.seq, record.nonce) for record in log.records()]


def main(scratch: str) -> None:
    folder = Path(scratch)
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0770", "tmpfs", str(disk)], check=True)
    # The first one has the topic. With the other the broker lives on, and says what is wrong.
    settings = {"log.dirs": f"{disk / 'data'},{folder / 'other'}", "metadata.log.dir": folder / "metadata"}
    with KafkaCluster(folder, settings=settings) as brokers, brokers.client() as client:
        topic_setup.create(client, TOPIC)
        log = log_in_topic(client, TOPIC)
        write(log, *RUNNING)
        there = Driver(brokers.servers, TOPIC)
        try:
            assert there.says() == "open"
            for write_one in (lambda count: there.says(f"beat {count}"), lambda count: _append(log, count)):
                _become_full(brokers, disk, write_one)
                brokers.wait(lambda: there.says("beat 1000") == "beaten")
                brokers.wait(lambda: _append(log, 0) == BEATEN)
        finally:
            there.close()
        names = [str(record.fields["deployment"]) for record in log.records()[len(RUNNING) :]]
        assert len(set(names)) == len(names)
        assert acknowledged <= set(names)
        with brokers.client() as other:
            assert told(log_in_topic(other, TOPIC)) == told(log)
    print("well again")


def _become_full(brokers: KafkaCluster, disk: Path, write_one: Callable[[int], str]) -> None:
    """Let one writer write until the disk is full, and make room: a broker uses a failed disk again when it starts."""
    # What its files have in memory has its place on the disk then.
    assert {write_one(count) for count in range(10)} == {BEATEN}
    with open(disk / "filler", "wb", buffering=0) as filler:
        fill(filler)
    # Their last pages have some room left.
    said = next(said for said in map(write_one, itertools.count(10)) if said != BEATEN)
    print(said)
    # Airflow's client asks again, and by then the broker has given up what was on that disk.
    assert SENTENCE in said or (said.startswith("ControlUnavailable") and "has no leader" in said)
    (disk / "filler").unlink()
    brokers.stop(1)
    brokers.start(1)


def _append(log: ControlLog, count: int) -> str:
    name = f"orders-{count}-{uuid.uuid4().hex[:8]}"
    try:
        log.propose(lambda state: declared(name))
    except ControlUnavailable as error:
        return f"{type(error).__name__}: {error}"
    acknowledged.add(name)
    return BEATEN


if __name__ == "__main__":
    main(*sys.argv[1:])
