"""Pure values and decisions: what a stream is, what may happen to it, and what to do next. No I/O."""
