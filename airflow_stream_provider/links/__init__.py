"""Links from a task to what an on-call person opens."""
