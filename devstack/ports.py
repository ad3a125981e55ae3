"""Find free ports on the loopback address."""

from __future__ import annotations

import random
import socket
import threading

HOST = "127.0.0.1"
# Below 32768, from where Linux takes the ports of outgoing connections. A server may need seconds to bind its port, and
# no connection may take that port meanwhile.
RANGE = range(20_000, 32_000)

_given: set[int] = set()
_lock = threading.Lock()


def free_port() -> int:
    """Return a port on which no process listens. Within this process each port is returned only once."""
    with _lock:
        while True:
            port = random.choice(RANGE)
            if port not in _given and _can_bind(port):
                _given.add(port)
                return port


def _can_bind(port: int) -> bool:
    # On all addresses, because some servers bind all of them even if told to use the loopback address.
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def listening(port: int) -> bool:
    """Return whether a process accepts connections on a port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
