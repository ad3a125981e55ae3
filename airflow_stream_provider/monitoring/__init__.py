"""The watch of a stream: health, incidents, samples, alerts, metrics."""
