"""What the watch says of a stream: health, incidents, samples, alerts, metrics."""
