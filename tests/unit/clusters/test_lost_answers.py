"""The proxy by which tests lose a master's answer."""

from __future__ import annotations

import socket

from tests.support.lost_answers import answers_lost


def test_whoever_gives_up_before_the_answer_keeps_nobody_else_from_the_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, answers_lost(server.getsockname()[1]) as port:
        server.settimeout(60)
        for number in range(2):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"%d" % number)
                there, _ = server.accept()
                with there:
                    there.settimeout(60)
                    assert there.recv(64) == b"%d" % number
                    client.close()
                    assert there.recv(64) == b"", "it is told that nobody waits any more"
