"""Free ports on the loopback address."""

from __future__ import annotations

import random
import socket
import threading

HOST = "127.0.0.1"
# Below 32768, where Linux begins to give ports to outgoing connections: a server may take seconds to bind the port it
# was given here, and a client's connection must not take it meanwhile.
RANGE = range(20_000, 32_000)

_given: set[int] = set()
_lock = threading.Lock()


def free_port() -> int:
    """Return a port nobody listens on, never the same one twice in this process."""
    with _lock:
        while True:
            port = random.choice(RANGE)
            if port not in _given and _can_bind(port):
                _given.add(port)
                return port


def _can_bind(port: int) -> bool:
    # On every address, because a part of the stack may try that where we only asked for the loopback one.
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def listening(port: int) -> bool:
    """Whether somebody accepts connections on this port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
