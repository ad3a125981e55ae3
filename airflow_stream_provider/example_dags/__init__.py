"""DAGs to copy: Airflow shows them where `[core] load_examples` is on. None runs before it is switched on."""
