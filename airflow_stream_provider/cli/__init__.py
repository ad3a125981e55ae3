"""`airflow streams`: the lag, status and history of streams in Airflow's command line."""
