"""Keeps the mark of the owner beside the checkpoints that this driver writes.

A move of a stream to another control log removes the mark (docs/control.md). If the old driver still runs, and only
waits for data, nothing in the checkpoint tells the new one of it: so the old one puts its mark back, within the seconds
for which a driver looks at a checkpoint that has no owner.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection

from airflow_stream_provider.lifecycle.errors import CheckpointError

# Less than half of the time for which `DriverProcess.claim` looks at a checkpoint without an owner.
SECONDS = 2.0

log = logging.getLogger(__name__)


class OwnerWatch:
    """Looks after the marks in a thread of its own, because a storage may hang.

    :param claimed: the locations that this driver has claimed so far.
    :param claim: makes the stream the owner of one, as `checkpoint.claim` does.
    :param holds: whether this driver holds the stream.
    :param lost: ends the driver; it is given the error that names the other owner. It need not return.
    """

    def __init__(
        self,
        claimed: Callable[[], Collection[str]],
        claim: Callable[[str], None],
        holds: Callable[[], bool],
        lost: Callable[[CheckpointError], None],
    ) -> None:
        self._claimed = claimed
        self._claim = claim
        self._holds = holds
        self._lost = lost

    def start(self) -> None:
        """Look every `SECONDS` from now on."""
        threading.Thread(target=self._run, name="airflow-stream-owner", daemon=True).start()

    def look(self) -> None:
        """Put back the marks that are gone; another owner's ends this driver. A storage that fails is asked later."""
        for location in self._claimed():
            if not self._holds():
                return
            try:
                self._claim(location)
            except CheckpointError as error:
                if "owner" in error.fields:
                    self._lost(error)
                log.debug("Whether %s still has its owner is not known: %s", location, error)

    def _run(self) -> None:
        while True:
            time.sleep(SECONDS)
            try:
                self.look()
            except Exception:  # whatever it is, such as a JVM that is ending: the watch must not end with it
                log.exception("Whether the checkpoints still have their owner is not known")
