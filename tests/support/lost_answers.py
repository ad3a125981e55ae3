"""A proxy that loses what a server answers."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def answers_lost(
    port: int, *, before_request: Callable[[], object] | None = None, after_request: Callable[[], object] | None = None
) -> Iterator[int]:
    """Forward requests to a port and drop every answer; the value is the proxy's port.

    :param before_request: called when somebody has connected, before anything is forwarded.
    :param after_request: called when the server has begun to answer, before the connection is closed.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                if before_request:
                    before_request()
                forward(client)
                if after_request:
                    after_request()

    def forward(client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            client.recv(65536)  # sent, and lost
            return
        with server:
            # A request may come in several pieces; only the answer comes in the other direction.
            while client in select.select([client, server], [], [])[0]:
                piece = client.recv(65536)
                if not piece:
                    return  # it has given up, and would be readable for ever
                server.sendall(piece)
            server.recv(65536)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
