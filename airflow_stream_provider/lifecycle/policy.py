"""How a deployment's drivers behave; it travels in the `declared` record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Policy:
    """Limits of a driver's rehearsal, hand-over and lease. Times are seconds, sizes bytes.

    `rehearse_batches`: real batches a standby runs into a no-op sink before it is ready; 0 = plan only.
    `rehearse_seconds`: a rehearsal that takes longer is refused.
    `state_limit_bytes`: state larger than this is not cloned for the warm rehearsal (a scratch checkpoint is used).
    `foreach_batch_safe`: the user's foreachBatch function may be called in a rehearsal.
    `boundary_seconds`: how long the holder may take to reach its batch boundary before a hand-over is aborted.
    `lease_seconds`: how long a holder may be silent before it halts itself and others may take it for dead.
    `take_back_seconds`: how long a releaser waits for the new holder before it takes the stream back.
    `changed_checkpoints`: query checkpoints that this deployment adds, drops or renames on purpose.
    `offsets_group`: consumer group that the holder commits its finished batches to; empty = none.
    """

    rehearse_batches: int = 3
    rehearse_seconds: float = 180.0
    state_limit_bytes: int = 1 << 30
    foreach_batch_safe: bool = False
    boundary_seconds: float = 60.0
    lease_seconds: float = 30.0
    take_back_seconds: float = 10.0
    changed_checkpoints: tuple[str, ...] = ()
    offsets_group: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the policy as the JSON object that `declared` carries."""
        return {**asdict(self), "changed_checkpoints": list(self.changed_checkpoints)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Policy:
        """Return the policy of a record; fields that this version does not know are ignored."""
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        if "changed_checkpoints" in known:
            known["changed_checkpoints"] = tuple(known["changed_checkpoints"])
        return cls(**known)
