"""What an operator does next, and what a task waits for."""
