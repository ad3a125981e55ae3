"""The page inside Airflow's UI: what holds, and whether it can be rolled back now. It only reads."""
