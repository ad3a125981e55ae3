"""The stream's YAML file, and the release that a person requests."""
