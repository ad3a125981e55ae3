"""Advice from measured batches, and what a trial of a setting says; pure."""
