"""Processes that append to one log at the same time; each says which numbers it has won, and what it reads in the end.

    python -m tests.support.race WRITERS WINS TOTAL STREAM_OR_TOPIC

The first line of its input says where that is: a control URL, or the extra of a connection to Kafka, which may hold a
password. The writers begin together, once all have opened the log and the input has ended. Each writes a line of
JSON: its `name`, the numbers that it has `won`, and `told`, the hash of the log that it reads.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from airflow_stream_provider.control import ControlLog, open_log
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.kafka.client import KafkaClient
from tests.support.log_in_topic import log_in_topic

ROOT = Path(__file__).parents[2]
SECONDS = 300


def contend(log: ControlLog, name: str, wins: int, total: int) -> dict[str, Any]:
    """Append so many records, and read on until all others have.

    :param total: how many records there are then.
    """
    won = [log.propose(lambda state: make_record("noted", name)).seq for _ in range(wins)]
    while log.refresh().seq < total:
        pass
    return {"name": name, "won": won, "told": told(log)}


def told(log: ControlLog) -> str:
    """Return a hash of all records, as a reader has them."""
    return hashlib.sha256(repr([(each.seq, each.nonce, each.by) for each in log.records()]).encode()).hexdigest()


def started(writers: int, wins: int, total: int, where: str, what: str) -> subprocess.Popen[str]:
    """Return when they have opened the log; `said` lets them begin."""
    command = [sys.executable, "-m", "tests.support.race", *map(str, (writers, wins, total, what))]
    running = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(f"{where}\n")
    running.stdin.flush()
    assert running.stdout.readline() == "ready\n"
    return running


def said(running: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Return what they say once they have all ended."""
    try:
        lines = running.communicate(timeout=SECONDS)[0].splitlines()
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0
    return [json.loads(line) for line in lines]


def _opened(where: str, what: str) -> ControlLog:
    if where.startswith("file:"):
        return open_log(where, what)
    client = KafkaClient("kafka_test", json.loads(where))
    return log_in_topic(client, what)


def main(writers: str, wins: str, total: str, what: str) -> None:
    """Fork the writers, which open the log for themselves, and wait for them."""
    where = sys.stdin.readline().rstrip("\n")
    children, (opened, opens), (begin, begins) = [], os.pipe(), os.pipe()
    for number in range(int(writers)):
        child = os.fork()
        if not child:
            try:
                os.close(begins)
                log = _opened(where, what)
                os.write(opens, b".")
                os.close(opens)
                os.read(begin, 1)  # nothing: the end
                line = json.dumps(contend(log, f"writer-{number}", int(wins), int(total))) + "\n"
                os.write(1, line.encode())  # whole, beside those of the others
                os._exit(0)
            except BaseException:  # noqa: BLE001 - it must not go on as the one that forks
                traceback.print_exc()
            os._exit(1)
        children.append(child)
    os.close(opens)
    if len(b"".join(iter(lambda: os.read(opened, 64), b""))) == len(children):
        print("ready", flush=True)
    sys.stdin.read()
    os.close(begins)
    if any(os.waitpid(child, 0)[1] for child in children):
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
