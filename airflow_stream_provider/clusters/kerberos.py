"""Prove to a web server who asks, by Kerberos (SPNEGO), and have it prove who answers.

MIT's library does that, through `gssapi` of the extra `kerberos`: realms and KDCs are those of this machine's
krb5.conf. Tickets are kept in the memory of this process, and the keytab is never written to a disk.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_stream_provider.clusters.bounded_http import Answer, Unanswered
from airflow_stream_provider.clusters.connection import KerberosLogin
from airflow_stream_provider.control.bounded import NoAnswer, call
from airflow_stream_provider.lifecycle.errors import ClusterError

SPNEGO = "1.3.6.1.5.5.2"
_SCHEME = "Negotiate"
# What these say is believed: 404 is that something is not known. Any other status is an error, whoever says so.
_BELIEVED = (200, 201, 202, 404)
# KRB5_KDC_UNREACH and KRB5_REALM_UNKNOWN of MIT's krb5.h, as they come: without a sign.
_KDC_AWAY = (-1765328228 % 2**32, -1765328230 % 2**32)

# By login, how often its tickets were thrown away; a cache of tickets cannot be emptied, only left behind.
_thrown_away: dict[KerberosLogin, int] = {}


class NoTicket(Unanswered):
    """Kerberos gives nothing that a server could be asked with; it was not asked."""

    def __init__(self, url: str, reason: str, next_step: str) -> None:
        super().__init__(url, reason, sent=False, next_step=next_step)


class Proof:
    """What is sent with one request, and what its answer must then have.

    :param authorization: value of the header of that name.
    """

    def __init__(self, context: Any, authorization: str, login: KerberosLogin) -> None:
        self.authorization = authorization
        self._context = context
        self._login = login

    def check(self, answer: Answer) -> None:
        """Check that an answer is that of the server which the request was meant for.

        :raises Unanswered: it does not prove that, and is none of the errors that anybody may answer with.
        """
        if answer.status == 401:
            # The ticket may be for a key that the server has no more. A 403 says that it was a good one.
            _thrown_away[self._login] = _thrown_away.get(self._login, 0) + 1
        if answer.status in _BELIEVED and not self._holds(answer.headers.get("www-authenticate", "")):
            raise Unanswered(
                answer.url,
                "did not prove by Kerberos who it is",
                next_step="Have it ask for Kerberos (hadoop.http.authentication.type), or remove principal and keytab.",
            )

    def _holds(self, header: str) -> bool:
        try:
            self._context.step(base64.b64decode(header.removeprefix(_SCHEME).strip(), validate=True))
            return bool(self._context.complete)  # which raises what `step` has only noted
        except (binascii.Error, _library().exceptions.GSSError):
            return False


def check(login: KerberosLogin) -> None:
    """Check that the library is there, and that the keytab has a key of the principal. Nobody is asked.

    :raises ClusterError: one of them is not so.
    """
    gss = _library()
    with keytab_file(login) as file:
        try:
            name = gss.Name(login.principal, gss.NameType.kerberos_principal)
            gss.Credentials(name=name, usage="accept", store={"keytab": f"FILE:{file}"})
        except gss.exceptions.GSSError as error:
            raise ClusterError(
                f"The keytab of the cluster's Airflow connection cannot be used for {login.principal}: {_said(error)}.",
                next_step="Write a keytab with a key of this principal, in base64, into the extra. Nothing was asked.",
                principal=login.principal,
            ) from None


def prove(login: KerberosLogin, url: str, host: str, seconds: float) -> Proof:
    """Return a proof for one request to a host; a KDC is asked only when the tickets at hand do not last.

    :param seconds: after which nobody waits for a KDC any more.
    :raises NoTicket: there is none: the KDC is away or refuses, or does not know the host.
    :raises ClusterError: the library is not installed.
    """
    gss = _library()

    def proof() -> Proof:
        with keytab_file(login) as file:
            name = gss.Name(login.principal, gss.NameType.kerberos_principal)
            store = {"client_keytab": f"FILE:{file}", "ccache": f"MEMORY:{_cache(login)}"}
            server = gss.Name(f"HTTP@{host}", gss.NameType.hostbased_service)
            context = gss.SecurityContext(
                name=server,
                creds=gss.Credentials(name=name, usage="initiate", store=store),
                mech=gss.OID.from_int_seq(SPNEGO),
                flags=gss.RequirementFlag.mutual_authentication,
                usage="initiate",
            )
            token = base64.b64encode(context.step() or b"").decode()
        return Proof(context, f"{_SCHEME} {token}", login)

    try:
        return call(proof, seconds, "The KDC")
    except NoAnswer:
        reason, away = f"no KDC has answered within {seconds:.0f} s", True
    except gss.exceptions.GSSError as error:
        reason, away = _said(error), error.min_code in _KDC_AWAY
    raise NoTicket(
        url,
        f"was not asked, because {login.principal} gets no Kerberos ticket for HTTP/{host}: {reason}",
        "See that this machine reaches a KDC of its realm (krb5.conf)."
        if away
        else "See that the principal, its keys in the keytab (all of them, of each type of encryption) and the name of "
        "the server are those that the KDC knows.",
    )


@contextmanager
def keytab_file(login: KerberosLogin) -> Iterator[str]:
    """Yield the path of a file with the keytab that only this process sees, and that ends with it: it has no name."""
    file = os.memfd_create("keytab")  # closed in whatever this process starts
    try:
        os.write(file, login.keytab)
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)


def _library() -> Any:
    try:
        import gssapi
    except (ImportError, OSError):  # it is not installed, or does not find MIT's library
        raise ClusterError(
            "The cluster's connection asks for Kerberos, and Python's gssapi cannot be imported here.",
            next_step="Install airflow-stream-provider[kerberos] for tasks, triggers and the watch; it is built with "
            "MIT's libkrb5-dev. Nothing was asked.",
        ) from None
    return gssapi


def _cache(login: KerberosLogin) -> str:
    """Return the name of the memory in which a login's tickets are kept: another one once they were thrown away."""
    known_by = hashlib.sha256(login.principal.encode() + b"\0" + login.keytab).hexdigest()
    return f"airflow-stream-{known_by}-{_thrown_away.get(login, 0)}"


def _said(error: Any) -> str:
    """Return what is wrong in Kerberos' own words, without what GSSAPI says around them."""
    own = error.get_all_statuses(error.min_code, False) if error.min_code else ()
    return str(next(iter(own), error)).strip().rstrip(".")
