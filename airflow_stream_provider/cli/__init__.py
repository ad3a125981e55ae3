"""`airflow streams`: lag, status and history of streams in Airflow's own command line."""
