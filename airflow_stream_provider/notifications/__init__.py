"""A notifier that measures a lag and reports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_stream_provider import lazily

if TYPE_CHECKING:
    from airflow_stream_provider.notifications.lag import LagNotifier as LagNotifier
    from airflow_stream_provider.notifications.upgrade import ApprovalNotifier as ApprovalNotifier
    from airflow_stream_provider.notifications.upgrade import UpgradeNotifier as UpgradeNotifier

# A DAG file imports what it uses and no more.
__getattr__ = lazily(
    __name__,
    {
        "lag": "LagNotifier",
        "upgrade": "ApprovalNotifier UpgradeNotifier",
    },
)
