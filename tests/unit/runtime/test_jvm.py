"""How a driver waits for its JVM, for which a server of one answer stands."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection, JavaParameters, PythonParameters

from airflow_stream_provider.runtime import jvm


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A connection as the first call of a thread makes it, after the script has set a timeout for its sockets."""
    monkeypatch.setattr(ClientServerConnection, "connect_to_java_server", ClientServerConnection.connect_to_java_server)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            found, _ = server.accept()
            with found:
                found.settimeout(60)  # the timeout that the script sets is not meant for this end
                found.recv(100)
                found.sendall(b"!yv\n")

        threading.Thread(target=answer, daemon=True).start()
        jvm.wait_for_answers()
        before = socket.getdefaulttimeout()
        socket.setdefaulttimeout(60)
        try:
            found = ClientServerConnection(
                JavaParameters(port=server.getsockname()[1]), PythonParameters(), SimpleNamespace(pool=None), None
            )
            found.connect_to_java_server()
            yield found
        finally:
            socket.setdefaulttimeout(before)
            found.close()


def test_a_slow_answer_is_waited_for_whatever_timeout_the_script_has_set_for_its_sockets(connection: Any) -> None:
    assert connection.socket.gettimeout() is None
    assert connection.send_command("c\n") == "yv"
