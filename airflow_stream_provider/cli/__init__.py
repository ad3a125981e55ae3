"""`airflow streams`: look at streams, and stop, start, roll back or fence them, in Airflow's command line."""
