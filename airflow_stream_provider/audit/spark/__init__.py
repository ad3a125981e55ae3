"""The audit of Spark: a driver, its queries and its cluster."""
