"""Run docker-compose.yaml for real: on Podman, on images built here under the names of the published ones."""
