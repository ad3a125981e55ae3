"""What becomes a link in Airflow's UI."""

from __future__ import annotations

import pytest

from airflow_stream_provider.links.stream import web_address


@pytest.mark.parametrize("address", ["http://host:4040", "https://host/logPage/?driverId=driver-1&logType=stderr"])
def test_a_web_address_is_a_link(address: str) -> None:
    assert web_address(address) == address


@pytest.mark.parametrize(
    "address",
    [
        None,
        "",
        "/data/streams/orders/drivers/orders-1.1a2b3c4d/log",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        " javascript:alert(1)",
        "data:text/html,<script>",
        "//host/x",
        "http://user:password@host/",
        "http://",
        "http://[::1",
        'http://host/"onclick="x',
        "http://host/\n",
    ],
)
def test_anything_else_is_none(address: object) -> None:
    assert web_address(address) == ""
