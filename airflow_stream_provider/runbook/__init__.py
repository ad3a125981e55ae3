"""The stream's YAML and the DAGs built from it."""
