"""A slow network before a real server: passes bytes on, so many a second, both ways."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

PIECE = 2**15


@contextlib.contextmanager
def slow_link(port: int, bytes_per_second: int) -> Iterator[int]:
    """Yield the port of a link to a server on this machine; it is gone afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    far = socket.create_connection(("127.0.0.1", port))
                    for source, target in ((near, far), (far, near)):
                        # So small that the sender waits for the link, and not the link for its own buffer.
                        source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
                        threading.Thread(target=_pass, args=(source, target, bytes_per_second), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])
        # Or `accept` would go on waiting.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _pass(source: socket.socket, target: socket.socket, bytes_per_second: int) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            time.sleep(len(piece) / bytes_per_second)
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
