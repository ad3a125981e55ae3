from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from chaos.clock import Clocks
from devstack.drivers import wait_for

TELL = """
import sys, time
for line in sys.stdin:
    print(time.time(), time.time_ns() / 1e9, flush=True)
"""


def test_the_clock_of_one_process_jumps_and_is_set_right(tmp_path: Path) -> None:
    clocks = Clocks(tmp_path / "clocks")
    environment = {**os.environ, **clocks.environment()}
    with subprocess.Popen(
        [sys.executable, "-c", TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        told, says = process.stdin, process.stdout
        assert told is not None
        assert says is not None

        def off() -> float:
            told.write("\n")
            told.flush()
            seconds, nanoseconds = map(float, says.readline().split())
            assert abs(seconds - nanoseconds) < 60
            return seconds - time.time()

        wait_for("its clock", lambda: -60 < off() < 60)
        clocks.jump([process.pid], 3600)
        wait_for("its clock", lambda: 3500 < off() < 3700)
        clocks.jump([process.pid], -3600)
        wait_for("its clock", lambda: -3700 < off() < -3500)
        clocks.set_right([process.pid])
        wait_for("its clock", lambda: -60 < off() < 60)
        told.close()
    assert list(clocks.folder.iterdir()) == []
