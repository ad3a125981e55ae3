"""The policy of a deployment: how its drivers behave. It travels in the `wanted` and `declared` records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Policy:
    """Limits of a driver's rehearsal, hand-over and lease. Times are in seconds, sizes in bytes.

    :param rehearse_batches: real batches that a standby runs into a no-op sink before it is ready; 0 = plan only.
    :param rehearse_seconds: a rehearsal that takes longer proves no more, and a person is asked.
    :param state_limit_bytes: larger state is not cloned for the rehearsal; a scratch checkpoint is used instead.
    :param foreach_batch_safe: whether the user's foreachBatch function may be called in a rehearsal.
    :param boundary_seconds: how long the holder may take to reach its batch boundary before a hand-over is aborted.
    :param lease_seconds: a holder that could not renew its lease for so long halts itself.
    :param pause_seconds: how long after its lease a holder without the control log keeps its queries paused before it
        halts itself. A driver on a lost machine counts as dead after both.
    :param take_back_seconds: how long a releaser waits for the new holder before it takes the stream back.
    :param changed_checkpoints: what this deployment changes on purpose; see `lifecycle.changed_checkpoints`.
    :param no_way_back: whether a person accepts that the release before cannot be given the stream back.
    :param offsets_group: consumer group that the holder commits its finished batches to; empty = none.
    :param loss_seconds: how long a query waits for records that Kafka shows no more before they count as lost; one of a
        driver that has never committed waits for some seconds only.
    :param adopts: whether its first driver comes up beside a job without a stream that writes the checkpoints, and
        follows it once their logs stand still.
    :param ledger: Airflow connection of the database by whose ledger all that the drivers write is written, and which
        therefore can refuse a driver on a lost machine; empty = none.
    :param trial: settings that its driver measures in place of a rehearsal (`lifecycle.trial`);
        empty = none.
    :param skip: the records that the stream's Kafka sources leave out; see `lifecycle.skip`.
    :param find: whether its driver looks for the records at which a batch fails, in place of a rehearsal.
    """

    rehearse_batches: int = 3
    rehearse_seconds: float = 180.0
    state_limit_bytes: int = 1 << 30
    foreach_batch_safe: bool = False
    boundary_seconds: float = 60.0
    lease_seconds: float = 30.0
    pause_seconds: float = 600.0
    take_back_seconds: float = 10.0
    changed_checkpoints: tuple[str, ...] = ()
    offsets_group: str = ""
    no_way_back: bool = False
    adopts: bool = False
    loss_seconds: float = 300.0
    ledger: str = ""
    trial: Mapping[str, Any] = field(default_factory=dict, hash=False)
    skip: tuple[str, ...] = ()
    find: bool = False

    @property
    def only_looks(self) -> bool:
        """Whether its driver measures or looks for something beside the holder, and never comes to hold."""
        return bool(self.trial) or self.find

    def to_json(self) -> dict[str, Any]:
        """Return the policy as the JSON object that records carry."""
        return {**asdict(self), "changed_checkpoints": list(self.changed_checkpoints), "skip": list(self.skip)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Policy:
        """Return the policy of a record; fields that this version does not know are ignored."""
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        for name in ("changed_checkpoints", "skip"):
            if name in known:
                known[name] = tuple(known[name])
        return cls(**known)
