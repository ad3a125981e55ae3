"""The operations on a stream as Airflow tasks: each deferrable, and safe to clear or retry at any moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_stream_provider import lazily

if TYPE_CHECKING:
    from airflow_stream_provider.operators.adopt import AdoptOperator as AdoptOperator
    from airflow_stream_provider.operators.audit import KafkaTopicAuditOperator as KafkaTopicAuditOperator
    from airflow_stream_provider.operators.audit import SparkAuditOperator as SparkAuditOperator
    from airflow_stream_provider.operators.base import stream_asset as stream_asset
    from airflow_stream_provider.operators.check import CheckReleaseOperator as CheckReleaseOperator
    from airflow_stream_provider.operators.lag import KafkaLagOperator as KafkaLagOperator
    from airflow_stream_provider.operators.stream import (
        AbortOperator as AbortOperator,
    )
    from airflow_stream_provider.operators.stream import (
        FenceOperator as FenceOperator,
    )
    from airflow_stream_provider.operators.stream import (
        HandOverOperator as HandOverOperator,
    )
    from airflow_stream_provider.operators.stream import (
        PromoteOperator as PromoteOperator,
    )
    from airflow_stream_provider.operators.stream import (
        RestartStreamOperator as RestartStreamOperator,
    )
    from airflow_stream_provider.operators.stream import (
        RetireOperator as RetireOperator,
    )
    from airflow_stream_provider.operators.stream import (
        RollBackOperator as RollBackOperator,
    )
    from airflow_stream_provider.operators.stream import (
        StartStreamOperator as StartStreamOperator,
    )
    from airflow_stream_provider.operators.stream import (
        StopStreamOperator as StopStreamOperator,
    )
    from airflow_stream_provider.operators.stream import (
        TrialOperator as TrialOperator,
    )
    from airflow_stream_provider.operators.upgrade import (
        JudgeRehearsalOperator as JudgeRehearsalOperator,
    )
    from airflow_stream_provider.operators.upgrade import (
        SoakOperator as SoakOperator,
    )
    from airflow_stream_provider.operators.upgrade import (
        SubmitStandbyOperator as SubmitStandbyOperator,
    )
    from airflow_stream_provider.operators.upgrade import (
        TakeOverOperator as TakeOverOperator,
    )
    from airflow_stream_provider.operators.watch import (
        ReviveStreamOperator as ReviveStreamOperator,
    )
    from airflow_stream_provider.operators.watch import (
        WatchStreamsOperator as WatchStreamsOperator,
    )

# A DAG file imports what it uses and no more.
__getattr__ = lazily(
    __name__,
    {
        "adopt": "AdoptOperator",
        "audit": "KafkaTopicAuditOperator SparkAuditOperator",
        "base": "stream_asset",
        "check": "CheckReleaseOperator",
        "lag": "KafkaLagOperator",
        "stream": "AbortOperator FenceOperator HandOverOperator PromoteOperator RestartStreamOperator RetireOperator "
        "RollBackOperator StartStreamOperator StopStreamOperator TrialOperator",
        "upgrade": "JudgeRehearsalOperator SoakOperator SubmitStandbyOperator TakeOverOperator",
        "watch": "ReviveStreamOperator WatchStreamsOperator",
    },
)
