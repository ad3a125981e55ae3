"""Ask for a checkpoint's owner, and claim it for this stream."""

from __future__ import annotations

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint.files import RemotePath
from airflow_stream_provider.control.owners import Owners
from airflow_stream_provider.lifecycle.errors import CheckpointError


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
        self.mark(location)

    def mark(self, location: str) -> None:
        """Put the file beside a claimed checkpoint back, if it is gone; the control store is not asked.

        :raises CheckpointError: it names another owner, or it cannot be read or written.
        """
        checkpoints.claim(location, self._stream, self._control, self._log)

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
