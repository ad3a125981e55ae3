import socket
import subprocess
import sys
from pathlib import Path

import pytest

from devstack.ports import RANGE, free_port, listening

ROOT = Path(__file__).parents[3]


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
        offers = iter([taken, *RANGE])
        monkeypatch.setattr("random.choice", lambda _: next(offers))
        assert free_port() != taken


def test_a_port_that_another_process_was_given_is_not_returned_before_its_server_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "import sys; from devstack.ports import free_port; print(free_port(), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        given = int(other.stdout.readline())
        offers = iter([given, *RANGE])
        monkeypatch.setattr("random.choice", lambda _: next(offers))
        assert free_port() != given
        other.communicate()


def test_a_machine_that_reserves_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(socket.socket):
        def bind(self, address: object) -> None:
            raise PermissionError("not here")

    monkeypatch.setattr(socket, "socket", Refusing)
    with pytest.raises(PermissionError, match="not here"):
        free_port()
