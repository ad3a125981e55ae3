"""Turn an operator's `stream`, or `group` and `kafka`, into a LagTarget and the limits that belong to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import SpecError

if TYPE_CHECKING:
    from airflow_stream_provider.spec.stream import StreamSpec


def lag_target(stream: StreamSpec | None, group: str = "", kafka: str = "", ledger: str = "") -> LagTarget:
    """Return the target of a stream, or of a consumer group.

    :param kafka: Airflow connection id, for a group; a stream's YAML names its own.
    :param ledger: Airflow connection id of a sink's database; `group` is then the name of a job in its ledger. Default:
        the one that the stream's YAML names.
    :raises SpecError: both or neither is given, or no Kafka connection is named.
    """
    if stream is None:
        if not group:
            raise SpecError(
                "Neither a stream nor a consumer group is given to measure.",
                next_step="Give stream=load_spec(...), or group= and kafka=.",
            )
        if not kafka:
            raise SpecError(
                f"No Kafka connection is given for the group {group}.",
                next_step="Give kafka=, an Airflow connection id.",
            )
        return LagTarget(kafka, group=group, ledger=ledger)
    if group:
        raise SpecError(
            f"Both the stream {stream.name} and the group {group} are given to measure.",
            next_step="Give one of them; add a second task for the other.",
        )
    if not stream.kafka:
        raise SpecError(
            f"The stream {stream.name} names no Kafka connection, so its lag cannot be measured.",
            next_step="Add kafka: CONNECTION_ID to its YAML.",
            stream=stream.name,
        )
    return LagTarget(stream.kafka, stream.name, stream.control, ledger=ledger or stream.lag.ledger or "")


def own_limits(stream: StreamSpec | None) -> LagLimits:
    """Return the limits in the stream's YAML; for a consumer group, which has none, the defaults."""
    return stream.lag.limits if stream else LagLimits()
