"""Spark's checkpoint on disk: read it, clone it, say whose it is. Plain files, no JVM."""
