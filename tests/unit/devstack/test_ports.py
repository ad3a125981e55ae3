import socket

import pytest

from devstack.ports import RANGE, free_port, listening


def test_a_port_is_returned_once_and_can_be_bound() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    assert all(port in RANGE for port in ports)
    with socket.socket() as server:
        server.bind(("127.0.0.1", ports[0]))
        assert not listening(ports[0])
        server.listen()
        assert listening(ports[0])


def test_a_port_in_use_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        taken = server.getsockname()[1]
        offers = iter([taken, free_port()])
        monkeypatch.setattr("devstack.ports._given", set())
        monkeypatch.setattr("random.choice", lambda _: next(offers))
        assert free_port() != taken
