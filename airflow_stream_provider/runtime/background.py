"""The work that a driver does beside its agent's turns, one at a time; when it fails, so does the driver."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_stream_provider.lifecycle.errors import ControlLogReplaced, StreamError
from airflow_stream_provider.runtime.ports import Spawn, Work

log = logging.getLogger(__name__)


class Background:
    """The background work of one incarnation.

    `work`: what was begun last; None when it is known to be over.

    :param fail: ends the driver as failed, with a reason and an error; called in the background.
    :param halt: ends the process without another record.
    """

    def __init__(self, spawn: Spawn, fail: Callable[[str, BaseException], None], halt: Callable[[], None]) -> None:
        self.work: Work | None = None
        self._rehearses = False
        self._spawn = spawn
        self._fail = fail
        self._halt = halt

    @property
    def is_busy(self) -> bool:
        """Whether the work is under way."""
        return self.work is not None and self.work.is_alive()

    @property
    def starts_or_stops(self) -> bool:
        """Whether queries are being started or stopped; what a rehearsal does is neither."""
        return self.is_busy and not self._rehearses

    def begin(self, work: Callable[[], None], *, rehearses: bool = False) -> None:
        """Begin this work; a driver whose work cannot begin halts, as the next turn takes it for begun."""

        def guarded() -> None:
            try:
                self._do_or_fail(work)
            except ControlLogReplaced as error:
                log.error("%s This driver halts.", error)
                self._halt()

        self._rehearses = rehearses
        try:
            self.work = self._spawn(guarded)
        except RuntimeError as error:
            log.error("%s: this driver halts.", error)
            self._halt()

    def _do_or_fail(self, work: Callable[[], None]) -> None:
        try:
            work()
        except ControlLogReplaced:
            raise  # there is no log to say `failed` in
        except Exception as error:
            log.exception("Failed in the background")
            self._fail(str(error) if isinstance(error, StreamError) else "The runtime itself failed", error)
