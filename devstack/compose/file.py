"""Read the Compose file: what is built, what is fetched, and in which order its services start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yaml"
DURATION = re.compile(r"(\d+)s")

Service = Mapping[str, Any]


def read_services() -> dict[str, Service]:
    """Return the services of the file by name."""
    services: dict[str, Service] = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
    return services


def start_order(services: Mapping[str, Service]) -> Iterator[list[str]]:
    """Return the services in groups: those of one start beside each other, after all that they depend on.

    A service that depends on nothing is in the first group, whether or not anything depends on it.

    :raises graphlib.CycleError: services depend on each other in a circle.
    """
    sorter = TopologicalSorter({name: service.get("depends_on", {}) for name, service in services.items()})
    sorter.prepare()
    while sorter.is_active():
        group = sorted(sorter.get_ready())
        yield group
        sorter.done(*group)


def patience(check: Mapping[str, Any]) -> float:
    """Return how many seconds Compose would give a service to become healthy.

    :param check: its health check.
    """
    each = _seconds(check["interval"]) + _seconds(check["timeout"])
    return _seconds(check["start_period"]) + int(check["retries"]) * each


def without_start_interval(services: Mapping[str, Service]) -> str:
    """Return a second Compose file without the `start_interval` of the health checks, which not every Podman knows."""
    checked = [name for name, service in services.items() if "start_interval" in service.get("healthcheck", {})]
    lines = (f"  {name}: {{healthcheck: {{start_interval: !reset null}}}}\n" for name in checked)
    return "services:\n" + "".join(lines)


def upstream_images(services: Mapping[str, Service]) -> set[str]:
    """Return the images that are not ours: those that services run, and those that our Dockerfiles begin with."""
    built = {service["image"]: service["build"] for service in services.values() if "build" in service}
    images = {service["image"] for service in services.values()} - set(built)
    for build in built.values():
        dockerfile = ROOT / build["context"] / build["dockerfile"]
        images.update(re.findall(r"^FROM (\S+)", dockerfile.read_text(), re.MULTILINE))
    return images


def _seconds(duration: str) -> float:
    match = DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(f"The duration {duration!r} is not a number of seconds such as 30s.")
    return float(match[1])
