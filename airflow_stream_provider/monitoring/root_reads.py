"""Read the streams of one control root side by side, with a deadline for each and an end to all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from airflow_stream_provider.control.bounded import NoAnswer, NotReached, gather
from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable, StreamError
from airflow_stream_provider.monitoring.stream_reading import Reading, read_stream
from airflow_stream_provider.spec.stream import StreamSpec

T = TypeVar("T")

# Seconds that one stream, or the root itself, may take; and after which no other stream of a root is begun with, by
# what is done with them.
EACH_SECONDS = 4.0
READ_SECONDS = 20.0
WRITE_SECONDS = 8.0
# Side by side; more would only wait for each other in Python.
WIDTH = 4
# When so many streams of a root hang, no other one is tried.
MOST_HANGING = 24


class RootReads:
    """One control root during one look. A stream that hangs once is left alone for the rest of the look.

    :param url: control URL.
    :param specs: the streams that are looked at and have it, those first that must not be left out again.
    """

    def __init__(self, url: str, specs: Sequence[StreamSpec]) -> None:
        self.url = url
        # Here, in the thread that may read Airflow's connections.
        self._root: ControlRoot | StreamError = opened(url)
        self.specs = specs
        # Why nothing of the root can be read; empty: it can.
        self.problem = ""
        # One stream could not be reached, and too few others were asked to know whether that is the root's fault.
        self.unclear = False
        # Why the checkpoints of its streams cannot be read; empty: they can; None: nothing is known of that.
        self.checkpoint_problem: str | None = None
        # The finding for each stream: None for one that was never deployed, or why it cannot be read.
        self.found: dict[str, Reading | Exception | None] = {}
        # The calls that hang on the root and, apart from it, on checkpoints: where these hang, samples are written all
        # the same.
        self._left: dict[str, Future[Any]] = {}
        self._checkpoints_left: dict[str, Future[Any]] = {}

    def read(self) -> None:
        """Read all streams."""
        root = self._root
        if isinstance(root, StreamError):
            self._fail(root)
            return
        known = self._gather({"": partial(_open, root)}, EACH_SECONDS)[""]
        if isinstance(known, Exception):
            self._fail(known)
            return
        calls = {spec.name: partial(read_stream, spec, root, known) for spec in self.specs}
        self.found = self._gather(calls, READ_SECONDS)
        self._judge("read", self.found)

    def _fail(self, error: Exception) -> None:
        self.problem = str(error)
        self.found = {spec.name: error for spec in self.specs}

    def each(self, calls: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Call these, each by the name of its stream, in threads; return what they returned or raised."""
        return self._gather(calls, WRITE_SECONDS)

    def checkpoints(self, calls: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Call these, which read checkpoints, as `each` does, and say whether most of them hang."""
        left = self._checkpoints_left
        found = gather(calls, WRITE_SECONDS, EACH_SECONDS, width=WIDTH, most=MOST_HANGING, left=left)
        asked, hang = _asked_and(found, lambda each: isinstance(each, NoAnswer))
        if 2 * len(hang) <= len(asked):
            self.checkpoint_problem = "" if asked else None
        elif len(hang) > 1:
            self.checkpoint_problem = f"{len(hang)} of {len(asked)} checkpoints cannot be read. {found[hang[0]]}"
        return found

    def _gather(self, calls: Mapping[str, Callable[[], T]], seconds: float) -> dict[str, T | Exception]:
        return gather(calls, seconds, EACH_SECONDS, width=WIDTH, most=MOST_HANGING, left=self._left)

    def judge_writes(self, answers: Mapping[str, object]) -> None:
        """Say that the root cannot be written when that is so of most streams; `answers`: by stream."""
        if not self.problem:
            self._judge("written", answers)

    def _judge(self, what: str, found: Mapping[str, object]) -> None:
        asked, away = _asked_and(found, out_of_reach)
        # One stream alone does not tell: its own folder may be what hangs.
        most = 2 * len(away) > len(asked)
        self.unclear |= most and len(away) == 1
        if most and len(away) > 1:
            self.problem = f"{len(away)} of {len(asked)} streams cannot be {what} there. {found[away[0]]}"


def opened(url: str) -> ControlRoot | StreamError:
    """Return the control root of a URL, or why it cannot be opened: whatever that is, other roots are read."""
    return tried(f"The control root {url} cannot be opened", lambda: control_root(url))


def tried(not_done: str, read: Callable[[], T]) -> T | StreamError:
    """Return what needs a connection of Airflow's, or why it cannot be had.

    :param not_done: what has failed then, for an error that is none of ours.
    """
    try:
        return read()
    except StreamError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a backend of secrets may raise anything
        return StreamError(f"{not_done}: {type(error).__name__}.")


def _open(root: ControlRoot) -> frozenset[str]:
    root.check()
    return root.seen()


def _asked_and(found: Mapping[str, object], holds: Callable[[object], bool]) -> tuple[list[str], list[str]]:
    """Return the streams that there was time to ask, and those of them of whose answer something holds."""
    asked = [name for name, each in found.items() if not isinstance(each, NotReached)]
    return asked, [name for name in asked if holds(found[name])]


def out_of_reach(found: object) -> bool:
    """Whether this is the error of a store that hangs or is away, rather than of what is in it."""
    return isinstance(found, (NoAnswer, ControlUnavailable)) and not isinstance(found, ControlLogDamaged)
