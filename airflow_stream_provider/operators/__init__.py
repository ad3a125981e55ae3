"""The operations on a stream as Airflow tasks: each deferrable, and safe to clear or retry at any moment."""
