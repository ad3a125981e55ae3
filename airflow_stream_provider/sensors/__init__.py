"""The sensors that wait for a stream, or for its lag."""
