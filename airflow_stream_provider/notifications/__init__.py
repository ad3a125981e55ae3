"""A notifier that measures a lag and reports it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_stream_provider.notifications.lag import LagNotifier as LagNotifier
    from airflow_stream_provider.notifications.upgrade import ApprovalNotifier as ApprovalNotifier
    from airflow_stream_provider.notifications.upgrade import UpgradeNotifier as UpgradeNotifier

_MODULES = {
    "lag": "LagNotifier",
    "upgrade": "ApprovalNotifier UpgradeNotifier",
}


def __getattr__(name: str) -> Any:
    # Lazy: a DAG file imports what it uses and no more.
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
