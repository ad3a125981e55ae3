"""Run Spark Structured Streaming jobs in production from Airflow: hand-over, roll-back, lag, fencing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__version__ = "0.1.0"
__all__ = ["check_stream_dags", "stream_dags"]


def lazily(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports a module once one of its names is asked for.

    :param modules: by module, the names that come from it, separated by spaces.
    """

    def find(name: str) -> Any:
        for module, names in modules.items():
            if name in names.split():
                return getattr(importlib.import_module(f"{package}.{module}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


def __getattr__(name: str) -> Any:
    # Lazy, because `lifecycle`, `control`, `checkpoint` and `runtime` are also imported inside the Spark driver,
    # where there is no Airflow.
    if name in __all__:
        from airflow_stream_provider.runbook import dags

        return getattr(dags, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
