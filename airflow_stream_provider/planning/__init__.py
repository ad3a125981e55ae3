"""Plan the next step of an operator, and the waits of a task."""
