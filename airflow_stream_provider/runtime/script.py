"""Runs the user's script unmodified, and sees how it ends, whichever of its threads or signals ends it.

SIGTERM: the JVM has a hook of its own. But a host that shuts down sends SIGTERM to both processes, and a person may
send it to Python alone: a script then stops its queries and ends, and must not be taken for one whose work is done.

YARN sends it to all processes of a container, and SIGKILL 250 ms later, or whatever its administrator has set. A Python
that ended at once could not release the stream in that time, so there it goes on unless the script has a handler.
"""

from __future__ import annotations

import contextlib
import errno
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from airflow_stream_provider.runtime.agent import Agent
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.spark_error import message_of


class Sigterm:
    """Notes SIGTERM before the script's handler is called.

    `came`: whether it has come. `leaving`: set when the process is about to end; the script's handlers are not called
    any more, since they could end the process before the stream is released.
    """

    def __init__(self) -> None:
        self.came = False
        self.leaving = False

    def install(self) -> None:
        """Patch `signal.signal` before the script runs. Without a handler Python ends at once, but not on YARN."""
        original = signal.signal
        if os.environ.get("CONTAINER_ID"):
            # Not SIG_IGN, which whatever the script starts would inherit.
            going_on = self._noted(lambda number, frame: None)
            original(signal.SIGTERM, going_on)

            def as_ever() -> None:
                if signal.getsignal(signal.SIGTERM) is going_on:
                    original(signal.SIGTERM, signal.SIG_DFL)

            # Processes that the script forks have no stream to release: SIGTERM must end them.
            os.register_at_fork(after_in_child=as_ever)

        def noting(signalnum: int, handler: Any) -> Any:
            own = signalnum == signal.SIGTERM and callable(handler)
            return original(signalnum, self._noted(handler) if own else handler)

        noting.__doc__ = original.__doc__
        signal.signal = noting

    def _noted(self, handler: Any) -> Any:
        def handle(number: int, frame: Any) -> Any:
            self.came = True
            return None if self.leaving else handler(number, frame)

        return handle


POLL_SECONDS = 0.2
# Hints beside an error for a person whose script has run elsewhere before.
PORT_TAKEN = (
    "Another process on this host has that port; the running driver of this stream may be it, because standby and "
    "holder run the script at the same time. Let each driver take a port of its own: a free one (0), or one that the "
    "script makes of its deployment (spark.airflow.stream.deployment in Spark's conf)."
)
NOT_HERE = (
    "The working folder is the driver's own, and empty at first. Name the file in `py_files`, and open it beside the "
    'script: Path(__file__).with_name("{}"); or give its whole path in a folder that all machines mount.'
)
CHILD_DIED = (
    "What that process said is in the driver's log. One that multiprocessing spawns imports the script anew: what only "
    'the driver may do belongs below `if __name__ == "__main__":`.'
)


def run_to_end(script: Path, arguments: Sequence[str], gate: Gate, agent: Agent, terminate: Callable[[], None]) -> None:
    """Run the script and wait until its queries are over; tell the agent how that went.

    :param terminate: is called when SIGTERM has reached Python and the script has ended, however it did: the stream is
        then released, and it is neither finished nor failed.
    """
    sigterm = Sigterm()
    sigterm.install()

    def fails(reason: str, error: BaseException) -> None:
        leave_if_terminated()
        hint = hint_for(error)
        said = f"{reason}: {type(error).__name__}: {message_of(error).rstrip('.')}. {hint}" if hint else reason
        agent.script_failed(said, error)

    def leave_if_terminated() -> None:
        if sigterm.came:
            sigterm.leaving = True
            terminate()
            agent.script_finished()

    try:
        run_script(script, arguments, gate, fails)
        leave_if_terminated()
        with _forked_end_here():
            gate.await_all()
    except SystemExit:  # by the script's handler of a signal, when the script itself is over
        leave_if_terminated()
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - by such a handler, too; recorded as any other
        fails("The script failed", error)
    leave_if_terminated()
    if not gate.holds:
        reason = "The script ended its queries while this driver did not hold the stream"
        agent.script_failed(reason, RuntimeError("a standby must wait until it takes over"))
    agent.script_finished()


def run_script(script: Path, arguments: Sequence[str], gate: Gate, fails: Callable[[str, BaseException], None]) -> None:
    """Run the script until it and its threads have ended, as Python does: daemon threads do not count.

    :param fails: takes a reason and an error when the script fails; in a driver it does not return.
    """
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    gate.script_begins()
    _see_hard_exits(gate, fails)
    lost = _see_lost_errors()
    try:
        with _forked_end_here():
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            # The error that the script was handling when it left says more than its exit code.
            fails(f"The script left with code {error.code}", error.__context__ or error)
    except BaseException as error:  # noqa: BLE001 - recorded in the control log before the process ends
        fails("The script failed", error)
    gate.script_waits()
    while any(_works(thread) for thread in gate.script_threads() - {threading.current_thread()}):
        time.sleep(POLL_SECONDS)
    if not gate.queries:
        why = lost[-1] if lost else RuntimeError("no query was started")
        fails("The script ended without starting a query", why)


def hint_for(error: BaseException) -> str:
    """Return what to do about an error that scripts make for which drivers are not what they knew; empty: nothing."""
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return PORT_TAKEN
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str) and not os.path.isabs(error.filename):
        return NOT_HERE.format(os.path.basename(error.filename))
    return CHILD_DIED if isinstance(error, BrokenProcessPool) else ""


@contextlib.contextmanager
def _forked_end_here() -> Iterator[None]:
    """End a process that the script has forked in here, as Python ends one whose script is over.

    The code after this, with the gate's locks and an agent whose thread is not there, is for the driver alone.
    """
    driver = os.getpid()
    code = 0
    try:
        yield
    except BaseException as error:
        if os.getpid() == driver:
            raise
        code = _exit_code(error)
    if os.getpid() != driver:
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.current_thread():
                thread.join()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _exit_code(error: BaseException) -> int:
    """Return the code of a process that this error ends, and say why on stderr as Python does."""
    if not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _works(thread: threading.Thread) -> bool:
    """Whether Python would wait for this thread at its end; a pool's worker that has nothing to do ends then."""
    frame: FrameType | None = sys._current_frames().get(thread.ident or 0)
    code = frame.f_code if frame is not None else None
    idle = code is not None and code.co_name == "_worker" and "concurrent" in Path(code.co_filename).parts
    return thread.is_alive() and not thread.daemon and not idle


def _see_hard_exits(gate: Gate, fails: Callable[[str, BaseException], None]) -> None:
    """Let the script say why its process ends when it calls os._exit; a watchdog of its own does that."""
    original, process = os._exit, os.getpid()

    def leave(status: int) -> NoReturn:
        # Not in a forked child, and not the runtime itself.
        if os.getpid() == process and threading.current_thread() in gate.script_threads():
            fails(f"The script ended its process with os._exit({status})", SystemExit(status))
        original(status)

    os._exit = leave


def _see_lost_errors() -> list[BaseException]:
    """Return a list that gets the errors which end threads of the script; Python prints them as before."""
    found: list[BaseException] = []
    original = threading.excepthook

    def note(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            found[:] = [arguments.exc_value]
        original(arguments)

    threading.excepthook = note
    return found
