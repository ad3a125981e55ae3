"""The triggers that wait for deferred tasks: one for streams, one for lags; and one that schedules DAGs by a lag."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_stream_provider.triggers.lag_event import LagEventTrigger as LagEventTrigger

_MODULES = {
    "lag_event": "LagEventTrigger",
}


def __getattr__(name: str) -> Any:
    # Lazy: a DAG file imports what it uses and no more.
    for module, names in _MODULES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
