"""The evidence for a release: whether it has ever committed a batch, by the records of its holders and their fences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.lifecycle.record import Kind

# A release that was never seen to commit gives way to an older one after so many holders that failed or were fenced.
SEVERAL = 3


@dataclass(frozen=True)
class Proof:
    """The evidence of the holders of one release, up to one of them.

    :param committed: True once one of them had committed a batch; False while all have said that they had not; None
        when one is not known, as its heartbeat was gone.
    :param failed: whether one has failed that had committed nothing.
    :param in_vain: how many have failed, or were fenced, that had committed nothing.
    """

    committed: bool | None = False
    failed: bool = False
    in_vain: int = 0

    @property
    def never(self) -> bool:
        """Whether it counts as a release that never commits: an older one follows it.

        One failure is enough when all holders have said that they committed nothing. A driver that was killed says
        nothing against its release by that, nor does an unknown one; so then it takes several.
        """
        if self.committed:
            return False
        return self.in_vain >= SEVERAL or (self.failed and self.committed is False)

    def after(self, kind: str, committed: Any) -> Proof:
        """Return what is known after a hold that ended with a record of this kind, which says `committed` or None."""
        if self.committed or committed is True:
            return Proof(committed=True)
        if committed is not False:
            return Proof(None, self.failed, self.in_vain)
        in_vain = self.in_vain + (kind in (Kind.FAILED, Kind.FENCED))
        return Proof(self.committed, self.failed or kind == Kind.FAILED, in_vain)
