"""Proofs by Kerberos: what is refused without a KDC. With a real one: tests/integration/clusters/test_yarn_kerberos.py.

MIT's library is not needed for `make test`; without it those tests are skipped that ask it.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import kerberos
from airflow_stream_provider.clusters.bounded_http import Answer
from airflow_stream_provider.clusters.connection import KerberosLogin
from airflow_stream_provider.clusters.kerberos import NoTicket, Proof
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.ports import HOST, free_port
from tests.support.keytabs import keytab

LOGIN = KerberosLogin("streams@EXAMPLE.COM", keytab())
URL = "http://rm.example.com:8088/ws/v1/cluster/info"
with_library = pytest.mark.skipif(
    importlib.util.find_spec("gssapi") is None, reason="no gssapi: it comes with `make test-kerberos`"
)


def krb5_conf(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "krb5.conf"
    file.write_text(
        "[libdefaults]\n default_realm = EXAMPLE.COM\n udp_preference_limit = 1\n dns_lookup_kdc = false\n"
        f"[realms]\n EXAMPLE.COM = {{\n  kdc = {HOST}:{port}\n }}\n"
    )
    monkeypatch.setenv("KRB5_CONFIG", str(file))


@pytest.mark.parametrize(
    ("principal", "user"), [("streams@EXAMPLE.COM", "streams"), ("streams/edge1@EXAMPLE.COM", "streams"), ("a", "a")]
)
def test_a_user_is_the_first_part_of_a_principal(principal: str, user: str) -> None:
    assert KerberosLogin(principal, b"").user == user


def test_a_key_is_not_shown() -> None:
    assert "kkkk" not in repr(LOGIN)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    for ask in (lambda: kerberos.check(LOGIN), lambda: kerberos.prove(LOGIN, URL, "rm.example.com", 1.0)):
        with pytest.raises(ClusterError, match="gssapi cannot be imported here") as refused:
            ask()
        assert "Install airflow-stream-provider[kerberos]" in refused.value.next_step


def test_tickets_are_thrown_away_only_when_a_server_does_not_take_them() -> None:
    """A 403 is about what the user may do: with new tickets it is the same."""
    proof, before = Proof(None, "Negotiate", LOGIN), kerberos._cache(LOGIN)
    for status in (403, 500, 503):
        proof.check(Answer(URL, status, {}, b""))
        assert kerberos._cache(LOGIN) == before
    proof.check(Answer(URL, 401, {}, b""))
    assert kerberos._cache(LOGIN) != before


def test_a_keytab_has_no_name_and_ends_with_its_use() -> None:
    with kerberos.keytab_file(LOGIN) as file:
        assert Path(file).read_bytes() == LOGIN.keytab
        assert os.readlink(file).startswith("/memfd:")
        number = int(Path(file).name)
        assert not os.get_inheritable(number)
    assert not Path(file).exists()


@with_library
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (keytab("other"), "No key table entry found for streams@EXAMPLE.COM"),
        (b"\x05\x02junk", "cannot be used for streams@EXAMPLE.COM"),
        (b"junk", "Unsupported key table format version number"),
    ],
)
def test_a_keytab_without_the_principal_s_key_is_refused_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, said: str
) -> None:
    krb5_conf(tmp_path, free_port(), monkeypatch)
    kerberos.check(LOGIN)
    with pytest.raises(ClusterError, match=said):
        kerberos.check(KerberosLogin(LOGIN.principal, content))


@with_library
def test_a_kdc_that_is_away_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    krb5_conf(tmp_path, free_port(), monkeypatch)
    with pytest.raises(
        NoTicket, match=r"no Kerberos ticket for HTTP/rm\.example\.com: Cannot contact any KDC"
    ) as refused:
        kerberos.prove(LOGIN, URL, "rm.example.com", 60.0)
    assert refused.value.sent is False
    assert refused.value.next_step == "See that this machine reaches a KDC of its realm (krb5.conf)."


@with_library
def test_a_kdc_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as silent:
        krb5_conf(tmp_path, silent.getsockname()[1], monkeypatch)
        with pytest.raises(NoTicket, match="no KDC has answered within 1 s"):
            kerberos.prove(LOGIN, URL, "rm.example.com", 1.0)
