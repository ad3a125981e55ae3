"""Run a real Kafka, Spark and Airflow on this machine, for the demo, the tests and the benchmarks."""
