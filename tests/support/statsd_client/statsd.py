"""As much of the package `statsd` as Airflow's gauges need: it is an extra of Airflow, and not installed here.

On the PYTHONPATH of a process under test; what it sends is what the real one would.
"""

from __future__ import annotations

import socket


class StatsClient:
    """Sends gauges over UDP."""

    def __init__(self, host: str, port: int, prefix: str = "", ipv6: bool = False) -> None:
        self._to = (host, int(port))
        self._prefix = f"{prefix}." if prefix else ""
        self._socket = socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_DGRAM)

    def gauge(self, stat: str, value: float, rate: float = 1, delta: bool = False) -> None:
        self._socket.sendto(f"{self._prefix}{stat}:{value}|g".encode(), self._to)

    def incr(self, stat: str, count: int = 1, rate: float = 1) -> None:
        """Not looked at, like the next two."""

    decr = incr

    def timing(self, stat: str, delta: float, rate: float = 1) -> None:
        pass

    def timer(self, stat: str | None = None, *args: object, **more: object) -> Timer:
        return Timer()


class Timer:
    """Not looked at either."""

    def start(self) -> Timer:
        return self

    def stop(self, send: bool = True) -> Timer:
        return self

    def send(self) -> None:
        pass
