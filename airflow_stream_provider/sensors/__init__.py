"""Wait for a stream."""
