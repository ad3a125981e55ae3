"""The wishes for a stream, the one decision of what comes next, its forecast, and the waits of a task."""
