"""One stream seen from Airflow: look at it, act on it."""
