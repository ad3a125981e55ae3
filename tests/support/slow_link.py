"""A slow network before a real server: passes bytes on, so many a second, both ways."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

PIECE = 2**15
# So often it looks how fast it is now.
LOOK_SECONDS = 0.1


@contextlib.contextmanager
def slow_link(port: int, bytes_per_second: Callable[[], int]) -> Iterator[int]:
    """Yield the port of a link to a server on this machine; it is gone afterwards.

    :param bytes_per_second: how fast it is now.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    try:
                        far = socket.create_connection(("127.0.0.1", port))
                    except ConnectionRefusedError:
                        near.close()
                        continue
                    for source, target in ((near, far), (far, near)):
                        # So small that the sender waits for the link, and not the link for its own buffer.
                        source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
                        threading.Thread(target=_pass, args=(source, target, bytes_per_second), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])
        # Or `accept` would go on waiting.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _pass(source: socket.socket, target: socket.socket, bytes_per_second: Callable[[], int]) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            left = float(len(piece))
            while left > 0:
                speed = bytes_per_second()
                seconds = min(LOOK_SECONDS, left / speed)
                time.sleep(seconds)
                left -= seconds * speed
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
