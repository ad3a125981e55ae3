from graphlib import CycleError

import pytest
import yaml

from devstack.compose.file import (
    Service,
    changes_for_podman,
    patience,
    published,
    read_services,
    start_order,
    upstream_images,
)


def test_services_start_after_what_they_depend_on() -> None:
    order = list(start_order(read_services()))
    place = {name: number for number, group in enumerate(order) for name in group}
    assert set(place) == set(read_services())
    for name, service in read_services().items():
        assert all(place[need] < place[name] for need in service.get("depends_on", {})), name
    assert order[0] == ["data-init", "postgres", "spark-master"]
    assert order[-1] == ["demo"]


def test_a_circle_of_services_is_refused() -> None:
    with pytest.raises(CycleError):
        list(start_order({"a": {"depends_on": {"b": {}}}, "b": {"depends_on": {"a": {}}}}))


def test_a_service_has_as_long_as_compose_would_give_it() -> None:
    assert patience({"start_period": "120s", "interval": "30s", "timeout": "20s", "retries": 10}) == 620
    with pytest.raises(ValueError, match="2m"):
        patience({"start_period": "2m", "interval": "30s", "timeout": "20s", "retries": 10})


def test_podman_gets_no_start_interval_free_ports_and_no_other_change() -> None:
    class Tagged(yaml.SafeLoader):
        """Knows the tags by which one Compose file changes another."""

    Tagged.add_constructor("!reset", lambda loader, node: "reset")
    Tagged.add_constructor("!override", lambda loader, node: loader.construct_sequence(node))
    free = iter(range(20_000, 20_100))
    found = yaml.load(changes_for_podman(read_services(), lambda: next(free)), Tagged)["services"]
    checks = {name: change.pop("healthcheck") for name, change in found.items() if "healthcheck" in change}
    checked = [name for name, service in read_services().items() if "healthcheck" in service]
    assert checks == {name: {"start_interval": "reset"} for name in checked}
    drivers = [f"127.0.0.1:{20_001 + number}:{4040 + number}" for number in range(6)]
    assert {name: change for name, change in found.items() if change} == {
        "spark-worker": {"ports": ["127.0.0.1:20000:8081", *drivers]},
        "api-server": {"ports": ["127.0.0.1:20007:8080"]},
    }


def test_a_port_in_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'8080:8080' is not of the form ADDRESS:PORT:PORT"):
        published({"ports": ["8080:8080"]})


def test_images_are_ours_or_upstream() -> None:
    services: dict[str, Service] = {
        "one": {"image": "their/one:1.0"},
        "two": {"image": "our/two:2.0", "build": {"context": ".", "dockerfile": "docker/airflow/Dockerfile"}},
    }
    images = upstream_images(services)
    assert "their/one:1.0" in images
    assert "our/two:2.0" not in images
    assert len(images) == 2
