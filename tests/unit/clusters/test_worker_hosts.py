"""Which of the addresses that workers give of themselves are asked."""

from __future__ import annotations

import pytest

from airflow_stream_provider.clusters.bounded_http import WorkerHosts
from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError


@pytest.mark.parametrize(
    ("allowed", "masters", "url"),
    [
        ((), ("http://127.0.0.1:8080",), "http://127.0.0.1:8081"),
        ((), ("http://10.1.2.3:8080",), "http://10.1.200.4:8081"),
        ((), ("http://[fd00::1]:8080",), "http://[fd00::2]:8081/"),
        ((), ("http://localhost:8080",), "http://localhost:8081"),
        (("10.0.0.0/8",), ("http://192.168.0.1:8080",), "https://10.9.9.9:8081"),
        (("10.9.9.9",), ("http://192.168.0.1:8080",), "http://10.9.9.9:8081"),
        (("localhost",), ("http://192.168.0.1:8080",), "http://LOCALHOST:8081"),
        (("10.0.0.0/8",), ("http://192.168.0.1:8080",), "http://192.168.0.1:8081"),
    ],
)
def test_what_is_near_a_master_or_listed_is_asked(allowed: tuple[str, ...], masters: tuple[str, ...], url: str) -> None:
    assert WorkerHosts(allowed, masters).address(url)


@pytest.mark.parametrize(
    ("allowed", "masters", "url"),
    [
        ((), ("http://10.1.2.3:8080",), "http://169.254.169.254:80"),  # a cloud's metadata
        ((), ("http://10.1.2.3:8080",), "http://127.0.0.1:5432"),
        ((), ("http://10.1.2.3:8080",), "http://localhost:5432"),
        ((), ("http://10.1.2.3:8080",), "http://10.2.2.3:8081"),
        ((), ("http://10.1.2.3:8080",), "http://[::1]:8081"),
        (("10.0.0.0/8",), ("http://192.168.0.1:8080",), "http://192.168.0.2:8081"),
        (("*.example.org",), ("http://192.168.0.1:8080",), "http://example.org.evil.invalid:8081"),
        (("*.example.org",), ("http://192.168.0.1:8080",), "http://127.0.0.1:8081"),
        ((), ("http://127.0.0.1:8080",), "file://127.0.0.1/etc/passwd"),
        ((), ("http://127.0.0.1:8080",), "http://user@127.0.0.1:8081"),
        ((), ("http://127.0.0.1:8080",), "http://127.0.0.1:8081/admin"),
        ((), ("http://127.0.0.1:8080",), "http://127.0.0.1:8081?x=1"),
        ((), ("http://127.0.0.1:8080",), "http://127.0.0.1:port"),
        ((), ("http://127.0.0.1:8080",), "None"),
    ],
)
def test_what_is_elsewhere_is_not(allowed: tuple[str, ...], masters: tuple[str, ...], url: str) -> None:
    with pytest.raises(ClusterError):
        WorkerHosts(allowed, masters).address(url)


def test_the_refusal_says_where_to_allow_it() -> None:
    with pytest.raises(ClusterError, match=r"page is on 169\.254\.169\.254.*not asked") as refused:
        WorkerHosts((), ("http://10.1.2.3",)).address("http://169.254.169.254:80")
    assert "worker_hosts" in refused.value.next_step


@pytest.mark.parametrize("entry", ["http://host", "host:8081", "10.0.0.0/99", "a*b", "*"])
def test_an_entry_that_means_nothing_is_refused(entry: str) -> None:
    with pytest.raises(SpecError, match="worker_hosts"):
        WorkerHosts((entry,), ("http://10.1.2.3",))
