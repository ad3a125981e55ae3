"""Measure the lag of one target with the Airflow connection that it names; for tasks and the command line."""

from __future__ import annotations

from airflow_stream_provider.hooks.connections import kafka_extra
from airflow_stream_provider.lag.look import LagLook
from airflow_stream_provider.lag.moments import Moments
from airflow_stream_provider.lag.reader import measure_lag
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError


def look_at_lag(target: LagTarget, moments: Moments) -> LagLook:
    """Measure once, with a connection to Kafka of its own; a failure is the look's `problem`.

    :param moments: what the report must say exactly.

    :raises SpecError: the Airflow connection is missing or unusable, so that a later look fails too.
    """
    try:
        report = measure_lag(target, kafka_extra(target.kafka), moments)
    except SpecError:
        raise
    except StreamError as error:
        return LagLook.failed(error)
    return LagLook.of(report)
