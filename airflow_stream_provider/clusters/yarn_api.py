"""HTTP calls to YARN's ResourceManagers and NodeManagers, with Kerberos or, where users are believed, by a name.

With Kerberos, Spark's own client asks YARN for the application's id, and sends it on, in one go. So what is written
down before is an id of ours. It says when it was made: one program at most is ever started with it, within a bound that
counts from then (docs/clusters.md#kerberos). After the bound it cannot be sent any more, and an application that is not
there then never comes.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from airflow_stream_provider.clusters.bounded_http import Answer, Unanswered, ask
from airflow_stream_provider.clusters.cluster import SubmitUnclear
from airflow_stream_provider.clusters.connection import ADDRESS, YarnSettings
from airflow_stream_provider.clusters.kerberos import prove
from airflow_stream_provider.control.bounded import start
from airflow_stream_provider.lifecycle.errors import ClusterError

SUBMIT_SECONDS = 240.0
"""So long after an id was made the program that may send it is killed, at the latest, whatever is done to the clock."""
COME_SECONDS = 300.0
"""So long an application of an id may still come: the clocks of two machines differ, and YARN may be slow."""
_SUBMISSION = re.compile(r"submission-(\d{13})-[0-9a-f]{16}", re.ASCII)


def new_submission(now: float) -> str:
    """Return a new id; `now` in seconds since 1970."""
    return f"submission-{int(now * 1000):013}-{secrets.token_hex(8)}"


def is_submission(id: str) -> bool:
    """Return whether a text is such an id."""
    return _SUBMISSION.fullmatch(id) is not None


def made_at(id: str) -> float:
    """Return when an id was made, in seconds since 1970, by its maker's clock."""
    found = _SUBMISSION.fullmatch(id)
    assert found is not None
    return int(found.group(1)) / 1000


def may_come(id: str, now: float) -> bool:
    """Return whether an application of this id that YARN does not know may still come."""
    return now < made_at(id) + COME_SECONDS


TIMEOUT = 10.0  # seconds for a whole request; a person may be waiting for the result
# Bytes. The nodes of a large cluster, or the applications that it remembers.
_MANAGER_LIMIT = 64 * 1024 * 1024
_REFUSED = (401, 403)
_WANTS_KERBEROS = ", and wants Kerberos"
_NO_KERBEROS = "Write principal and keytab into the extra of the connection."
_REFUSED_TICKET = "See that YARN knows the principal (hadoop.security.auth_to_local), and that all clocks agree."
_NOT_ACTIVE = (307, 503)
# Every state in which a node may be: without them, those that it has lost are left out.
_NODE_STATES = "NEW,RUNNING,UNHEALTHY,DECOMMISSIONING,DECOMMISSIONED,LOST,REBOOTED,SHUTDOWN"


@dataclass(frozen=True)
class Manager:
    """The ResourceManager that is active.

    :param url: its web address.
    :param settings: as whom it and its nodes are asked.
    :param started: when it was started, in milliseconds since 1970: the ids that it hands out have this number.
    :param clock_ahead: how far its clock is ahead of ours, in seconds; exact to one second.
    """

    url: str
    settings: YarnSettings
    started: int
    clock_ahead: float

    def handed_out(self, application: str) -> bool:
        """Whether an id is of this start of the ResourceManager."""
        return application.split("_")[:2] == ["application", str(self.started)]

    def node_url(self, host: object) -> str:
        """Return the web address of a NodeManager: all of a YARN have the same `yarn.http.policy`.

        :param host: host and port, as the ResourceManager has them.
        """
        return f"{urlsplit(self.url).scheme}://{host}"


def find_active(settings: YarnSettings) -> Manager:
    """Return the ResourceManager that is active.

    :raises ClusterError: none is. The message says what each of them answered.
    """
    # At the same time: one that is off must not use up the time for the others. Each request ends at its deadline.
    asked = [start(partial(_look_at, url, settings), url) for url in settings.addresses]
    for future in as_completed(asked):
        found = future.result()
        if isinstance(found, Manager):
            return found
    why = [error for error in (future.result() for future in asked) if isinstance(error, Unanswered)]
    raise ClusterError(
        f"No ResourceManager of YARN answers: {'; '.join(error.message.rstrip('.') for error in why)}.",
        next_step=next((error.next_step for error in why if error.next_step), "")
        or f"Start it, or correct `{ADDRESS}` in the extra of the connection.",
        manager=settings.addresses,
    )


def _look_at(url: str, settings: YarnSettings) -> Manager | Unanswered:
    """Return a ResourceManager that is active, or why it cannot be asked."""
    try:
        # The one thing that a standby answers itself.
        answer = send("GET", f"{url}/ws/v1/cluster/info", settings)
        if answer.status in _REFUSED:
            said = f"answered HTTP {answer.status}{_kerberos(answer)}"
            return Unanswered(url, said, next_step=_kerberos_step(answer, settings))
        info = answer.json()["clusterInfo"]
        state, started = (info["state"], info.get("haState", "ACTIVE")), int(info["startedOn"])
    except Unanswered as error:
        return Unanswered(url, error.reason, next_step=error.next_step)
    except (KeyError, TypeError, ValueError, AttributeError):
        return Unanswered(url, "is not a ResourceManager's web address")
    if state == ("STARTED", "ACTIVE"):
        return Manager(url, settings, started, answer.clock_ahead)
    return Unanswered(url, f"is {state[1]} ({state[0]})")


def get(manager: Manager, path: str, **query: object) -> dict[str, Any] | None:
    """Return what the ResourceManager says; None: it does not know that (404).

    :raises ClusterError: it does not answer, or refuses.
    """
    answer = _ask(manager, "GET", path, query)
    return None if answer.status == 404 else _json(manager, answer)


def application(manager: Manager, id: str) -> dict[str, Any] | None:
    """Return what the ResourceManager says of an application; None: it does not know it.

    :raises ClusterError: it does not answer, or refuses.
    """
    if not is_application(id):  # which it would refuse
        return None
    found = get(manager, f"apps/{quote(id, safe='')}", deSelects="resourceRequests")
    return None if found is None else found.get("app")


def driver(manager: Manager, submission: str) -> dict[str, Any] | None:
    """Return what the ResourceManager says of the application of a submission; None: it knows none.

    :param submission: an application's id, or the tag that stands for one that is not known (`new_submission`).
    :raises ClusterError: it does not answer, or refuses.
    """
    if not is_submission(submission):
        return application(manager, submission)
    return next(iter(applications(manager, applicationTags=submission)), None)


def is_application(id: str) -> bool:
    """Return whether a text is an application's id, such as ``application_1410450250506_0001``."""
    parts = id.split("_")
    return len(parts) == 3 and parts[0] == "application" and all(part.isdecimal() for part in parts[1:])


def applications(manager: Manager, **query: object) -> list[dict[str, Any]]:
    """Return the applications that the ResourceManager knows, also those that have ended.

    :raises ClusterError: it does not answer, or refuses.
    """
    found = get(manager, "apps", deSelects="resourceRequests", **query) or {}
    return list((found.get("apps") or {}).get("app") or ())


def nodes(manager: Manager) -> list[dict[str, Any]]:
    """Return all nodes that the ResourceManager knows, also those that it has lost.

    :raises ClusterError: it does not answer, or refuses.
    """
    found = get(manager, "nodes", states=_NODE_STATES) or {}
    return list((found.get("nodes") or {}).get("node") or ())


def setting(manager: Manager, name: str, url: str = "", address: str = "") -> str:
    """Return a setting of the ResourceManager, or of a daemon at a URL; empty: it has none of this name.

    :raises Unanswered: it does not answer.
    """
    answer = send(
        "GET", f"{url or manager.url}/conf?{urlencode({'format': 'json', 'name': name})}", manager.settings, address
    )
    if answer.status == 404:
        return ""
    found = answer.json()
    return str((found.get("property") or {}).get("value") or "")


def new_application(manager: Manager) -> str:
    """Return a new id; nothing is started.

    :raises ClusterError: the ResourceManager does not answer, or refuses.
    """
    found = _json(manager, _ask(manager, "POST", "apps/new-application", {}, {}))
    return str(found.get("application-id", ""))


def submit(manager: Manager, request: Mapping[str, Any]) -> None:
    """Send an application. That it is accepted says nothing: look for it.

    :raises SubmitUnclear: it was sent, but no answer came.
    :raises ClusterError: it could not be sent, or the ResourceManager refused it.
    """
    try:
        answer = send("POST", f"{manager.url}/ws/v1/cluster/apps", manager.settings, body=request)
    except Unanswered as error:
        if error.sent:
            raise SubmitUnclear(
                f"The ResourceManager at {manager.url} did not answer, so it may or may not have taken the driver.",
                next_step="Nothing to do: its id is in the control log, and it is sent again under that.",
                manager=manager.url,
            ) from None
        raise _away(manager, error) from None
    if answer.status in _NOT_ACTIVE:
        raise SubmitUnclear(
            f"The ResourceManager at {manager.url} is not the active one any more (HTTP {answer.status}).",
            next_step="Nothing to do: the driver's id is in the control log, and it is sent again under that.",
            manager=manager.url,
        )
    if answer.status not in (200, 202):
        raise _refusal(manager, answer, "the driver")


def kill(manager: Manager, id: str) -> None:
    """Ask the ResourceManager to kill an application; one that it does not know, or that has ended, is fine.

    :raises ClusterError: it does not answer, or refuses.
    """
    answer = _ask(manager, "PUT", f"apps/{quote(id, safe='')}/state", {}, {"state": "KILLED"})
    if answer.status not in (200, 202, 404):
        raise _refusal(manager, answer, f"to kill {id}")


def _ask(
    manager: Manager, method: str, path: str, query: Mapping[str, object], body: Mapping[str, Any] | None = None
) -> Answer:
    words = urlencode(query)
    url = f"{manager.url}/ws/v1/cluster/{path}" + (f"?{words}" if words else "")
    try:
        return send(method, url, manager.settings, body=body)
    except Unanswered as error:
        raise _away(manager, error) from None


def send(
    method: str,
    url: str,
    settings: YarnSettings,
    address: str = "",
    limit: int = _MANAGER_LIMIT,
    body: Mapping[str, Any] | None = None,
) -> Answer:
    """Send a request to a ResourceManager or a NodeManager; `address` and `limit` as `bounded_http.ask` has them.

    With Kerberos the time for a ticket is part of that for the request.

    :raises Unanswered: no answer within the time and the limit, or with Kerberos no ticket, or no proof of the server's
        identity.
    :raises ClusterError: the library for Kerberos is not installed.
    """
    if settings.kerberos is None:
        url += ("&" if "?" in url else "?") + urlencode({"user.name": settings.user})
        return ask(method, url, seconds=TIMEOUT, limit=limit, address=address, body=body)
    end = time.monotonic() + TIMEOUT
    proof = prove(settings.kerberos, url, urlsplit(url).hostname or "", TIMEOUT)
    left = max(0.0, end - time.monotonic())
    authorization = proof.authorization
    answer = ask(method, url, seconds=left, limit=limit, address=address, authorization=authorization, body=body)
    proof.check(answer)
    return answer


def _json(manager: Manager, answer: Answer) -> dict[str, Any]:
    if answer.status != 200:
        raise _refusal(manager, answer, "a question")
    try:
        return answer.json()
    except Unanswered as error:
        raise _away(manager, error) from None


def _away(manager: Manager, error: Unanswered) -> ClusterError:
    return ClusterError(
        f"The ResourceManager at {manager.url} does not answer: {error.reason}.",
        next_step=error.next_step or "Try again, and read its log.",
        manager=manager.url,
    )


def _refusal(manager: Manager, answer: Answer, what: str) -> ClusterError:
    return ClusterError(
        f"The ResourceManager at {manager.url} refused {what}: {reason(answer)}.",
        next_step=_kerberos_step(answer, manager.settings)
        or f"See that YARN lets the user {manager.settings.user} do that, and read the ResourceManager's log.",
        manager=manager.url,
        status=answer.status,
    )


def reason(answer: Answer) -> str:
    """Return what an answer that is an error says, without Java's names."""
    try:
        message = str(answer.json(any_status=True)["RemoteException"]["message"])
    except (Unanswered, KeyError, TypeError):
        return f"HTTP {answer.status}{_kerberos(answer)}"
    first = message.strip().partition("\n")[0].rpartition("Exception: ")[2].strip().rstrip(".")
    return f"{first} (HTTP {answer.status})"


def _kerberos(answer: Answer) -> str:
    """Return the end of a sentence about an answer: that it asks for Kerberos, or nothing."""
    negotiates = answer.headers.get("www-authenticate", "").startswith("Negotiate")
    return _WANTS_KERBEROS if negotiates else ""


def _kerberos_step(answer: Answer, settings: YarnSettings) -> str:
    """Return what to do when Kerberos is why an answer is a refusal; empty: it is not."""
    if settings.kerberos is not None:
        return _REFUSED_TICKET if answer.status in _REFUSED else ""
    return _NO_KERBEROS if _kerberos(answer) else ""
