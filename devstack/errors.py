"""The error of the local stack."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import StreamError


class StackError(StreamError):
    """A part of the local stack cannot be fetched, started or reached. The other parts have been stopped."""
