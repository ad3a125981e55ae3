"""What a heartbeat says of a query of which Spark has told nothing yet; what it tells is in the integration tests."""

from __future__ import annotations

from types import SimpleNamespace

from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
from airflow_stream_provider.runtime.describe import progress
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from tests.support.real_run import real_run, writer


def test_a_query_that_the_script_has_stopped_has_ended() -> None:
    watcher = SimpleNamespace(script_waits=lambda: None, query_ended=lambda query: None)
    query = ManagedQuery(watcher, writer("/data/out"), real_run)
    sink = query.writer_spec.sink
    assert progress(query) == QueryProgress("out", "/data/out", sink)
    query.stop()
    assert progress(query) == QueryProgress("out", "/data/out", sink, ended=True)
