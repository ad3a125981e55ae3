from airflow_stream_provider import stream_dags

globals().update(stream_dags("streams/"))
