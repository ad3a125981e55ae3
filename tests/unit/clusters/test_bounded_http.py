"""Requests against servers that are slow, silent, endless, or send the client elsewhere."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from airflow_stream_provider.clusters.bounded_http import Unanswered, ask

OK = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"


class Server:
    """Answers every connection with these bytes, then with one more byte after another, or with silence."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.requests: list[bytes] = []
        self.answer = OK + b"{}"
        self.drip = b""
        self.silent = False
        self.over = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while not self.over.is_set():
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client:
            try:
                self.requests.append(client.recv(65536))
                client.sendall(self.answer)
                while self.drip and not self.over.wait(0.02):
                    client.sendall(self.drip)
                if self.silent:
                    self.over.wait()
            except OSError:
                return

    def close(self) -> None:
        self.over.set()
        self.listener.close()


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


def get(server: Server, *, seconds: float = 30.0, limit: int = 1000, authorization: str = "") -> object:
    return ask("GET", f"{server.url}/json/?a=b", seconds=seconds, limit=limit, authorization=authorization).json()


def test_an_answer_is_read_with_its_status_and_headers(server: Server) -> None:
    server.answer = OK + b'{"status": "ALIVE"}'
    answer = ask("GET", f"{server.url}/json/", seconds=30.0, limit=1000)
    assert answer.json() == {"status": "ALIVE"}
    assert answer.headers["content-type"] == "application/json"
    assert server.requests[0].startswith(b"GET /json/ HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("answer", "drip"),
    [
        (b"", b""),  # nothing at all
        (b"HTTP/1.0 200 OK\r\n", b"X-More: x\r\n"),  # headers without end
        (OK, b" "),  # a body without end, a byte at a time
        (b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
)
def test_the_time_is_for_the_whole_request(server: Server, answer: bytes, drip: bytes) -> None:
    server.answer, server.drip, server.silent = answer, drip, True
    began = time.monotonic()
    with pytest.raises(Unanswered, match=r"did not answer within 1 s") as error:
        get(server, seconds=1.0, limit=10**9)
    assert error.value.sent
    assert time.monotonic() - began < 20.0  # it ends at all; without a deadline it never did


def test_a_large_answer_is_not_read_to_its_end(server: Server) -> None:
    server.answer, server.drip = OK, b"x" * 100
    with pytest.raises(Unanswered, match="answered with more than 1000 bytes"):
        get(server)


def test_an_answer_that_was_cut_off_is_none(server: Server) -> None:
    server.answer = b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{}"
    with pytest.raises(Unanswered, match="did not answer with HTTP"):
        get(server)


@pytest.mark.parametrize("body", [b"[]", b"1", b"<html>", b"", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(server: Server, body: bytes) -> None:
    server.answer = OK + body
    with pytest.raises(Unanswered, match="did not answer with"):
        get(server, limit=10**6)


def test_a_redirect_is_not_followed(server: Server) -> None:
    elsewhere = Server()
    try:
        server.answer = f"HTTP/1.0 302 Found\r\nLocation: {elsewhere.url}/\r\n\r\n".encode()
        with pytest.raises(Unanswered, match="answered HTTP 302"):
            get(server)
        assert elsewhere.requests == []
    finally:
        elsewhere.close()


def test_a_host_that_refuses_has_certainly_not_been_sent_anything() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(Unanswered, match="cannot be reached") as error:
            ask("POST", f"http://127.0.0.1:{nobody.getsockname()[1]}/", seconds=30.0, limit=10, body={})
    assert not error.value.sent


def test_the_request_goes_to_the_address_that_was_looked_up(server: Server) -> None:
    port = server.url.rpartition(":")[2]
    ask("GET", f"http://no-such-host.invalid:{port}/x", seconds=30.0, limit=10, address="127.0.0.1")
    assert b"Host: no-such-host.invalid:" in server.requests[0]


def test_what_authorizes_is_sent_and_never_shown(server: Server) -> None:
    get(server, authorization="Bearer hunter2")
    assert b"\r\nAuthorization: Bearer hunter2\r\n" in server.requests[0]
    get(server)
    assert b"Authorization" not in server.requests[1]
    with pytest.raises(Unanswered) as error:
        get(server, authorization="Bearer hunter2\r\nX: y")
    assert "hunter2" not in str(error.value) + repr(error.value)
    assert error.value.__cause__ is None
