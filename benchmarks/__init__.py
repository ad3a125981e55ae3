"""Benchmarks: real processes, both sides alternating in one run, numbers written to build/bench."""
