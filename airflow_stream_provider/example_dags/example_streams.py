"""The DAGs of every stream that is described in a folder: upgrade, operate and retire it, and watch all of them."""

from __future__ import annotations

from airflow_stream_provider import stream_dags

dags = stream_dags("streams/", prefix="example.")
for dag in dags.values():
    # Without this, which is for examples only, streams are watched from the moment that Airflow has seen the file.
    dag.is_paused_upon_creation = True
globals().update(dags)
