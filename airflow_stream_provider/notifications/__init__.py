"""What tells people that a stream is behind."""
