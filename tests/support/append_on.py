"""Appends to a stream's log as fast as it can, and says on standard output what it won: run as a process to be killed.

python -m tests.support.append_on CONTROL_URL STREAM NAME [PAUSE_SECONDS]
"""

from __future__ import annotations

import sys
import time

from airflow_stream_provider.control import open_log
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.lifecycle.errors import StreamError


def main(url: str, stream: str, name: str, pause: str = "0") -> None:
    log = open_log(url, stream)
    while True:
        time.sleep(float(pause))
        try:
            state = log.propose(lambda _: make_record("noted", name, text="x" * 200))
        except StreamError as error:
            print(type(error).__name__, flush=True)
        else:
            print(state.seq, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
