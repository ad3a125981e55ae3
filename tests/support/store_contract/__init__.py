"""The contract of every store of control logs: one suite, and for each store a class that knows how to harm it."""
