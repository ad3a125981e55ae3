"""The demo: a job is adopted and upgraded under load, with counts and pictures that show the effect on the output."""
