import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_stream_provider.clusters.processes import command
from devstack import reaper
from devstack.drivers import wait_for
from devstack.errors import StackError
from devstack.stack import LocalStack

OWNER = """
import signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background ignores it
from pathlib import Path
from devstack.processes import Processes
from devstack.stack import LocalStack

class Told(Processes):
    def __init__(self, *args):
        super().__init__(*args)
        print(self.mark, flush=True)

import devstack.stack as stack
stack.Processes = Told
with LocalStack(Path(sys.argv[1]), kafka=False):
    print("up", flush=True)
    threading.Event().wait()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("moment", ["starting", "up"])
def test_an_owner_that_is_killed_leaves_nothing(number: signal.Signals, moment: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as owner:
        assert owner.stdout is not None
        assert owner.stderr is not None
        mark = owner.stdout.readline().strip()
        try:
            if moment == "up":
                assert owner.stdout.readline().strip() == "up"
            wait_for(
                "a part to start", lambda: any("spark" in " ".join(command(process)) for process in reaper.marked(mark))
            )
        finally:
            os.killpg(owner.pid, number)
        try:
            assert owner.wait(600) == -number
        finally:
            owner.kill()
        if number == signal.SIGINT:
            assert list(reaper.marked(mark)) == []
            assert "KeyboardInterrupt" in owner.stderr.read()
        wait_for("all to end", lambda: not list(reaper.marked(mark)))


def test_a_part_that_does_not_come_up_is_an_error_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devstack.spark.DAEMON_JVM", ("-XX:NoSuchOption",))
    stack = LocalStack(tmp_path)
    with pytest.raises(StackError, match=r"spark-(master|worker) ended with exit code 1(.|\n)*NoSuchOption"):
        stack.start()
    assert [process for process in stack.spark._processes._started if process.alive] == []


def test_two_stacks_do_not_share_a_folder(stack: LocalStack) -> None:
    with pytest.raises(StackError, match="Another stack is running in"):
        LocalStack(stack.folder).start()
    assert stack.spark.status()["workers"]
