"""Find free ports on the loopback address."""

from __future__ import annotations

import errno
import random
import socket

HOST = "127.0.0.1"
# Below 32768, from where Linux takes the ports of outgoing connections. A server may need seconds to bind its port, and
# no connection may take that port meanwhile.
RANGE = range(20_000, 32_000)

# What keeps the ports for this process; never closed.
_kept: list[socket.socket] = []


def free_port() -> int:
    """Return a port on which no process listens.

    Within this process it is returned only once, and by no other process of this machine as long as this one lives.
    """
    while True:
        port = random.choice(RANGE)
        kept = _keep(port)
        if kept is None:
            continue
        if _can_bind(port):
            _kept.append(kept)
            return port
        kept.close()


def _keep(port: int) -> socket.socket | None:
    """Take a port among all that ask this module; None: it was returned already, and its server may not run yet.

    :raises OSError: this machine has no such names, or does not let this process take one.
    """
    kept = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        # The name is in no folder, and goes with the process.
        kept.bind(f"\0airflow-stream-port-{port}")
    except OSError as error:
        kept.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return kept


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
