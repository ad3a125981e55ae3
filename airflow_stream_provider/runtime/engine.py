"""Refuses the engines of Spark that have no batch boundary on disk: their queries can be stopped, not handed over."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.runtime.writer_spec import WriterSpec

_TRIGGERS = {"continuous": "in continuous mode", "realTime": "in real-time mode"}


def check_engine(label: str, spec: WriterSpec) -> None:
    """Check that a query writes its offsets before each batch, and its commit after it.

    :raises RehearsalRefused: it runs in continuous or real-time mode, or with asynchronous progress tracking.
    """
    found = next((how for trigger, how in _TRIGGERS.items() if trigger in spec.trigger), "")
    if spec.options.get("asyncprogresstrackingenabled", "").lower() == "true":
        found = "with asynchronous progress tracking"
    if found:
        raise RehearsalRefused(
            f"The query {label} runs {found}, so that it has no batch boundaries to be handed over at.",
            next_step="Run it with a processing time trigger and without asyncProgressTrackingEnabled, or without this "
            "package.",
            query=label,
        )
