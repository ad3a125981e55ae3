"""A network before one broker that knows where requests and answers begin, and which of them are writes.

It tells clients its own address in place of the broker's, so that they use it for everything. Without TLS only.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

from devstack.ports import HOST
from tests.support.store_contract.troubles import Troubles

PRODUCE = 0


class KafkaLink(Troubles):
    """Starts at once.

    :param port: of the broker, on this machine.
    """

    WAIT_SECONDS = 120.0

    def __init__(self, port: int) -> None:
        super().__init__()
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._broker = port
        self._address, self._own = (HOST.encode() + struct.pack(">i", each) for each in (port, self.port))
        self._lost = threading.Event()
        self._near: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End it, and all connections."""
        for each in (self._goes_on, self._answers):
            each.set()
        self._cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @contextlib.contextmanager
    def answer_lost(self, then_away: bool) -> Iterator[None]:
        """Pass the next write on, and end its connection when the broker has answered.

        :param then_away: no other connection is made until the end.
        """
        self._lost.clear()
        self._loses, self._away_then = True, then_away
        yield
        # The broker has answered: what was written is there.
        assert self._lost.wait(self.WAIT_SECONDS)
        self._away = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._away:
                    near.close()
                    continue
                try:
                    far = socket.create_connection((HOST, self._broker))
                except ConnectionRefusedError:
                    near.close()
                    continue
                self._near.append(near)
                written: set[bytes] = set()
                for work in (self._ask, self._answer):
                    threading.Thread(target=self._run, args=(work, near, far, written), daemon=True).start()

    def _run(
        self,
        work: Callable[[socket.socket, socket.socket, set[bytes]], None],
        near: socket.socket,
        far: socket.socket,
        written: set[bytes],
    ) -> None:
        with contextlib.suppress(OSError):
            work(near, far, written)
        if work == self._ask:
            _end(far, socket.SHUT_WR)
        else:
            _end(near, socket.SHUT_RDWR)
            _end(far, socket.SHUT_RDWR)

    def _ask(self, near: socket.socket, far: socket.socket, written: set[bytes]) -> None:
        while body := _frame(near):
            self._answers.wait()
            if struct.unpack(">h", body[:2])[0] == PRODUCE:
                self._arrive()
                if self._loses:
                    self._loses = False
                    written.add(body[4:8])
            far.sendall(struct.pack(">i", len(body)) + body)

    def _answer(self, near: socket.socket, far: socket.socket, written: set[bytes]) -> None:
        while body := _frame(far):
            self._answers.wait()
            time.sleep(self._seconds)
            if body[:4] in written:
                self._away = self._away_then
                if self._away:
                    self._cut()
                self._lost.set()
                return
            body = body.replace(self._address, self._own)
            near.sendall(struct.pack(">i", len(body)) + body)

    def _cut(self) -> None:
        for each in self._near:
            _end(each, socket.SHUT_RDWR)


def _frame(source: socket.socket) -> bytes:
    """Return the next request or answer, without its length; nothing: the connection has ended."""
    (length,) = struct.unpack(">i", _bytes(source, 4) or b"\0" * 4)
    return _bytes(source, length)


def _bytes(source: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        piece = source.recv(count - len(found))
        if not piece:
            return b""
        found += piece
    return bytes(found)


def _end(connection: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(how)
