"""A notifier that measures a lag and reports it."""
