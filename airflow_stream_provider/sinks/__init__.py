"""Sinks for foreachBatch that write each record once: rows and offsets in one transaction.

    writer.foreachBatch(exactly_once(postgres("orders_db"), table="orders", key=["id"]))

Cassandra has no such transaction: there it writes by key, and a batch that is run again replaces its rows.

With the launcher of this package the sink takes stream and epoch from it. Without it, in a plain spark-submit, it takes
an epoch of its own. Standard library, pyspark and the database's own driver only.
"""

from __future__ import annotations

from airflow_stream_provider.sinks.cassandra import cassandra as cassandra
from airflow_stream_provider.sinks.delta import delta as delta
from airflow_stream_provider.sinks.exactly_once import ExactlyOnce as ExactlyOnce
from airflow_stream_provider.sinks.exactly_once import exactly_once as exactly_once
from airflow_stream_provider.sinks.iceberg import iceberg as iceberg
from airflow_stream_provider.sinks.kafka import kafka as kafka
from airflow_stream_provider.sinks.ledger import AnotherWriter as AnotherWriter
from airflow_stream_provider.sinks.ledger import BadRows as BadRows
from airflow_stream_provider.sinks.ledger import Fenced as Fenced
from airflow_stream_provider.sinks.ledger import Gap as Gap
from airflow_stream_provider.sinks.ledger import OtherSource as OtherSource
from airflow_stream_provider.sinks.ledger import Overlap as Overlap
from airflow_stream_provider.sinks.ledger import SinkError as SinkError
from airflow_stream_provider.sinks.ledger import SinkRefused as SinkRefused
from airflow_stream_provider.sinks.mariadb import mariadb as mariadb
from airflow_stream_provider.sinks.postgres import postgres as postgres
