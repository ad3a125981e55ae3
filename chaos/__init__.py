"""Hours of faults drawn from a seed, on the real stack: what `make chaos` runs. Not part of the wheel."""
