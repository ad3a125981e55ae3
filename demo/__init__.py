"""The demo: four upgrades of a stream under load, with counts and pictures that show their effect on the output."""
