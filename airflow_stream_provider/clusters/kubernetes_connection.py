"""Read the Airflow connection of a Kubernetes cluster: where its API server is, and how a driver's pod looks."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from airflow_stream_provider.clusters.connection import KUBERNETES, ClusterConnection, refused
from airflow_stream_provider.clusters.pod_template import container_of, read_template

KUBERNETES_CONN_ID = "kubernetes_conn_id"
"""Field of the extra that names a connection of type ``kubernetes``."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class KubernetesSettings:
    """A Kubernetes cluster and the pods in it.

    :param namespace: where drivers and executors run.
    :param template: of a driver's pod, checked; it has image and service account.
    :param address: of the API server, such as ``https://host:6443``; empty: what `kubernetes` says.
    :param token: with which it is asked, if `address` is given.
    :param ca_file: certificates by which it is known, if `address` is given; empty: those of the system.
    :param kubernetes: extra of the Kubernetes connection, if one is named.
    :param ui_url: address of a driver's Spark UI, with ``{namespace}`` and ``{pod}``; empty: not known.
    :param log_url: address of a driver's log, the same; empty: that of the API server.
    """

    namespace: str
    template: Mapping[str, Any] = field(repr=False)
    address: str = ""
    token: str = field(default="", repr=False)
    ca_file: str = ""
    kubernetes: Mapping[str, Any] | None = field(default=None, repr=False)
    ui_url: str = ""
    log_url: str = ""

    @property
    def image(self) -> str:
        """Image of the driver, and of the executors where the conf names no other."""
        return str(container_of(self.template)["image"])


def kubernetes_settings(connection: ClusterConnection) -> KubernetesSettings:
    """Return what a connection whose host begins with ``k8s://`` says.

    Extra: ``namespace`` (needed); ``template``, a pod template or its path; ``image`` and ``service_account``, where
    the template has none; `KUBERNETES_CONN_ID`, a connection of type ``kubernetes`` with address and credentials of the
    API server. Without that: the API server is in the host, its token is the password, ``ca_file`` its certificate.
    ``ui_url`` and ``log_url``: addresses for people.

    :raises SpecError: a field is missing or not valid.
    """
    extra = connection.extra
    named = str(extra.get(KUBERNETES_CONN_ID) or "")
    if named and connection.kubernetes is None:
        raise refused(f"the Kubernetes connection {named!r} was not read", "Open it through Airflow.")
    address = "" if named else _address(connection.host, connection.port)
    if not named and (connection.login or not connection.password):
        raise refused(
            "it has a login" if connection.login else f"{connection.host!r} has no credentials",
            f"Name a connection of type kubernetes as {KUBERNETES_CONN_ID} in the extra, or give a service account's "
            "token as the password, without a login.",
        )
    namespace = str(extra.get("namespace") or (connection.kubernetes or {}).get("namespace") or "")
    if not _NAME.fullmatch(namespace):
        raise refused(f"namespace in the extra is {namespace!r}", "Name the namespace of the drivers' pods.")
    return KubernetesSettings(
        namespace=namespace,
        template=_completed(read_template(extra.get("template")), extra),
        address=address,
        token=connection.password if address else "",
        ca_file=str(extra.get("ca_file") or ""),
        kubernetes=connection.kubernetes if named else None,
        ui_url=_link(extra, "ui_url"),
        log_url=_link(extra, "log_url"),
    )


def _address(host: str, port: int | None) -> str:
    text = host.strip().removeprefix(KUBERNETES).rstrip("/")
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        valid = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
        plain, own_port = not parts.username and not parts.password, parts.port
    except ValueError:
        valid, plain, own_port = False, True, None
    if not valid or not plain:
        shown = host.rpartition("@")[2]  # what stands before it may hold a password
        raise refused(f"{shown!r} is no API server", "Write k8s://https://HOST:PORT.")
    found = parts.geturl()
    return f"{found}:{port}" if port and not own_port else found


def _completed(template: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template with the extra's image and service account."""
    spec, container = template["spec"], container_of(template)
    for holder, key, name in ((container, "image", "image"), (spec, "serviceAccountName", "service_account")):
        given, own = str(extra.get(name) or ""), str(holder.get(key) or "")
        if given and own and given != own:
            raise refused(f"{name} in the extra is {given!r}, and {own!r} in the pod template", "Write it once.")
        if not given and not own:
            what = {"image": "image", "service_account": "service account"}[name]
            raise refused(
                f"neither its extra nor the pod template names the drivers' {what}", f"Write {name} into the extra."
            )
        holder[key] = own or given
    return template


def _link(extra: Mapping[str, Any], key: str) -> str:
    url = str(extra.get(key) or "")
    try:
        fields = {name for _, name, _, _ in string.Formatter().parse(url) if name is not None}
    except ValueError:
        fields = {""}
    if fields - {"namespace", "pod"} or (url and not url.startswith(("http://", "https://"))):
        raise refused(f"{key} in the extra is {url!r}", "Write a URL with {namespace} and {pod} in it.")
    return url
