"""What Kafka's clients in a driver's JVM are told; the rest of it real JVMs show."""

from __future__ import annotations

import pytest

from airflow_stream_provider.runtime.jvm_topic import recovery


class Names(set[str]):
    """As a `java.util.Set`."""

    def contains(self, name: str) -> bool:
        return name in self


class Config:
    """A class of settings of Kafka's clients."""

    def __init__(self, *names: str) -> None:
        self.names = Names(names)

    def configNames(self) -> Names:
        return self.names


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (Config("acks", "metadata.recovery.strategy"), {"metadata.recovery.strategy": "rebootstrap"}),
        (Config("acks"), {}),
    ],
    ids=["Kafka's client 3.9", "Kafka's client 3.4"],
)
def test_a_client_goes_back_to_the_bootstrap_servers_if_it_can(config: Config, told: dict[str, str]) -> None:
    assert recovery(config) == told
