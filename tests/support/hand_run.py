"""What is shown of a stream that a test has run by hand."""

from __future__ import annotations

from devstack.drivers import HandRunStream


def show(stream: HandRunStream) -> None:
    """Print what is shown when a test fails."""
    for record in stream.log.records():
        print(record)
    for driver in stream.drivers:
        print(f"----- {driver.deployment}\n{driver.log()[-6000:]}")
