from graphlib import CycleError

import pytest
import yaml

from devstack.compose.file import (
    Service,
    patience,
    read_services,
    start_order,
    upstream_images,
    without_start_interval,
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


def test_every_health_check_loses_its_start_interval_and_nothing_else() -> None:
    class Reset(yaml.SafeLoader):
        """Knows the tag that takes a value away."""

    Reset.add_constructor("!reset", lambda loader, node: "reset")
    found = yaml.load(without_start_interval(read_services()), Reset)["services"]
    checked = [name for name, service in read_services().items() if "healthcheck" in service]
    assert found == {name: {"healthcheck": {"start_interval": "reset"}} for name in checked}


def test_images_are_ours_or_upstream() -> None:
    services: dict[str, Service] = {
        "one": {"image": "their/one:1.0"},
        "two": {"image": "our/two:2.0", "build": {"context": ".", "dockerfile": "docker/airflow/Dockerfile"}},
    }
    images = upstream_images(services)
    assert "their/one:1.0" in images
    assert "our/two:2.0" not in images
    assert len(images) == 2
