"""Kafka as the streams need it: how far a stream is behind."""
