from airflow_stream_provider import check_stream_dags

# A file of its own: its import error names what is wrong, and makes no DAG stale.
check_stream_dags("streams/")
