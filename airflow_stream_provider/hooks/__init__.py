"""One stream seen from Airflow: look at it, decide, act on it."""
