"""Run a real Kafka, Spark and Airflow on this machine, and a load on them, for demo, tests and benchmarks."""
