"""The checkpoints that are this stream's, the owner's mark beside them, and the stream's other drivers.

A move of a stream to another control log removes the mark (docs/control.md). If the old driver still runs, and only
waits for data, nothing in the checkpoint tells the new one of it: so the old one puts its mark back, within the seconds
for which a driver looks at a checkpoint that has no owner.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint.files import RemotePath
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.control.owners import Owners
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.ids import deployment_of

# How often the marks are looked at: less than half of the time for which `DriverProcess.claim` looks at a checkpoint
# without an owner.
MARK_SECONDS = 2.0

log = logging.getLogger(__name__)


class Ownership:
    """Claims checkpoints in the name of one stream.

    In a local or mounted folder a file beside the checkpoint decides, which is created once. Elsewhere the control
    store does, where the first claim wins; the file beside the checkpoint then tells streams of other control stores.
    A claim is for ever, so the control store is asked of each location until it has once named this stream: a hand-over
    must not wait for it again. The file is looked at each time.

    :param control: control URL of the stream.
    :param owners: the claims of that control store.
    :param log: what tells the stream's control log from any other under that URL (`Store.origin`); default: not known.
    """

    def __init__(self, stream: str, control: str, owners: Owners, log: str = "") -> None:
        self._stream = stream
        self._control = control
        self._owners = owners
        self._log = log
        # Places that the control store has named this stream for.
        self._ours: set[str] = set()
        # The locations that this driver has claimed.
        self.claimed: set[str] = set()

    def check(self, location: str) -> bool:
        """Return True if the stream owns the checkpoint, False if it has no owner.

        :raises CheckpointError: another stream owns it, or the owner cannot be read.
        :raises ControlUnavailable: the control store does not answer.
        """
        claimed = self._claimed(location)
        marked = checkpoints.check_owner(location, self._stream, self._control, self._log)
        return claimed or marked

    def claim(self, location: str) -> None:
        """Make the stream the owner of the checkpoint, permanently. Claiming it again has no effect.

        :raises CheckpointError: another stream owns it, or the file beside it cannot be written.
        :raises ControlUnavailable: the control store does not answer.
        """
        if isinstance(checkpoints.locate(location), RemotePath):
            place = checkpoints.normal_form(location)
            if place not in self._ours:
                # First the claims of other control stores: a claim in this one would stay.
                checkpoints.check_owner(location, self._stream, self._control, self._log)
                self._note(place, self._owners.claim(place, self._stream))
        checkpoints.claim(location, self._stream, self._control, self._log)
        self.claimed.add(location)

    def put_marks_back(self, holds: Callable[[], bool], lost: Callable[[CheckpointError], None]) -> None:
        """Put the files beside the claimed checkpoints back that are gone; the control store is not asked.

        Nothing follows from a storage that fails.

        :param holds: whether this driver holds the stream.
        :param lost: ends the driver; it is given the error that names the other owner. It need not return.
        """
        for location in list(self.claimed):
            if not holds():
                return
            try:
                checkpoints.claim(location, self._stream, self._control, self._log)
            except CheckpointError as error:
                if "owner" in error.fields:
                    lost(error)
                log.debug("Whether %s still has its owner is not known: %s", location, error)

    def _claimed(self, location: str) -> bool:
        if not isinstance(checkpoints.locate(location), RemotePath):
            return False
        place = checkpoints.normal_form(location)
        if place in self._ours:
            return True
        owner = self._owners.owner(place)
        if owner is not None:
            self._note(place, owner)
        return owner is not None

    def _note(self, place: str, owner: str) -> None:
        if owner != self._stream:
            raise CheckpointError(
                f"The checkpoint {place} belongs to the stream {owner}, not to {self._stream}; both are of "
                f"{self._control}.",
                next_step="Give each stream its own checkpoint. If the other stream will never run again, remove its "
                f"claim in {self._owners.kept_in(place)}, and {place}.owner.",
                location=place,
                owner=owner,
            )
        self._ours.add(place)


# A driver beats about once a second.
BEATS_SECONDS = 3.0
# An orphan's Python ends within two seconds; a counter that grows after ten belongs to a live driver.
ORPHAN_SECONDS = 10.0


class OtherDrivers:
    """The other drivers of one incarnation's stream; reads the log for itself, in any thread, on from where it is."""

    def __init__(self, log: ControlLog, incarnation: str) -> None:
        self._log = log.another()
        self._me = incarnation

    def twin_lives(self) -> bool:
        """Whether another driver of this deployment is alive; waits up to 13 s.

        There is one when the submission was repeated, or when an old driver is still ending.
        """
        mine = deployment_of(self._me)
        names = [name for name in self._log.store.heartbeats() if deployment_of(name) == mine]
        if not names:
            return False
        time.sleep(ORPHAN_SECONDS)
        return any(self._beats(names))

    def may_rehearse(self, incarnation: str) -> bool:
        """Whether another driver may be rehearsing now: it is not announced, its deployment goes on, and it beats.

        Waits up to 3 s.
        """
        state = self._log.refresh()
        deployment = state.deployments.get(deployment_of(incarnation))
        if deployment is None or deployment.ended or incarnation in state.incarnations:
            return False
        return any(self._beats([incarnation]))

    def _beats(self, names: list[str]) -> list[bool]:
        """Whether each of these drivers writes heartbeats."""
        before = [self._counter(name) for name in names]
        time.sleep(BEATS_SECONDS)
        return [after > count for count, after in zip(before, (self._counter(name) for name in names))]

    def _counter(self, name: str) -> int:
        beat = self._log.heartbeat(name)
        return beat.counter if beat else 0  # damaged: its writer is dead, or writes a whole one next
