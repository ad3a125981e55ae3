"""Read the Airflow connection of a Kubernetes cluster: where its API server is, and the template of a driver's pod.

People extend the driver's pod with the template: image, service account, volumes, node selector, secrets by reference.
Fields that a driver's pod cannot have are refused.
"""

from __future__ import annotations

import copy
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from airflow_stream_provider.clusters.connection import KUBERNETES, ClusterConnection, refused, without_user
from airflow_stream_provider.clusters.job import SecretInConf, refuse_secret_environment
from airflow_stream_provider.lifecycle.errors import SpecError

CONTAINER = "spark-kubernetes-driver"
"""Name of the driver's container, as spark-submit names it."""
PREFIX = "airflow-stream-provider/"
"""The beginning of the names of our labels, annotations and finalizers."""
SUBMISSION = "AIRFLOW_STREAM_SUBMISSION"
"""Environment variable by which the runtime knows its submission; its heartbeat tells it."""
ADDRESS = "SPARK_DRIVER_BIND_ADDRESS"
"""Environment variable with the pod's address; the entrypoint of Spark's images reads it."""
OWN_LABELS = ("spark-role", "spark-app-selector")
_OWN_VARIABLES = (SUBMISSION, ADDRESS)


def read_template(template: Any) -> dict[str, Any]:
    """Return a pod template as plain data, checked.

    :param template: a mapping, the YAML of one, or the path of a YAML file on the machines of Airflow; None or empty:
        a template with nothing but the container.
    :raises SpecError: it cannot be read, or says what a driver's pod cannot have.
    """
    if not template:
        return {"spec": {"containers": [{"name": CONTAINER}]}}
    found = copy.deepcopy(dict(template)) if isinstance(template, Mapping) else _parse(str(template))
    _check(found)
    return found


def container_of(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the driver's container of a checked template, or of a pod that was made of one."""
    found: dict[str, Any] = next(each for each in template["spec"]["containers"] if each["name"] == CONTAINER)
    return found


def _parse(text: str) -> dict[str, Any]:
    where = "The pod template in the connection"
    if "\n" not in text and not text.lstrip().startswith("{"):
        where = f"The pod template {text}"
        try:
            text = Path(text).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(
                f"{where} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}.",
                next_step="Put the file on every machine that runs Airflow's tasks and triggers, or write the YAML "
                "itself into `template` of the connection's extra.",
            ) from error
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        # The parser's text quotes what it has read.
        raise SpecError(f"{where} is no YAML{line}.", next_step="Correct it.") from None
    if not isinstance(found, dict):
        raise SpecError(f"{where} is no YAML mapping.", next_step="Write a pod: metadata and spec.")
    return found


def _check(pod: Mapping[str, Any]) -> None:
    if pod.get("kind", "Pod") != "Pod":
        raise _refused(f"it is of kind {pod['kind']!r}", "Write one of kind Pod.")
    metadata, spec = _mapping(pod, "metadata"), _mapping(pod, "spec")
    _refuse(metadata, "it has metadata.", _SET_HERE)
    for kind in ("labels", "annotations"):
        for name in _mapping(metadata, kind):
            if str(name).startswith(PREFIX) or name in OWN_LABELS:
                raise _refused(f"it sets {name} in metadata.{kind}", "Remove it: drivers are found by it.")
    if spec.get("restartPolicy", "Never") != "Never":
        raise _refused(f"its restartPolicy is {spec['restartPolicy']!r}", f"Write Never: {_RESTARTS}")
    _refuse(spec, "it has ", _KILLS)
    containers = spec.get("containers")
    names = [each.get("name") if isinstance(each, Mapping) else None for each in containers or ()]
    if not isinstance(containers, list) or names != [CONTAINER]:
        raise _refused(
            f"its containers are {', '.join(map(repr, names)) or 'none'}",
            f"Write one, named {CONTAINER}. A pod ends with its last container, so a helper beside the driver must be "
            "an init container with restartPolicy: Always.",
        )
    _check_container(containers[0])
    helpers = spec.get("initContainers") or []
    if not isinstance(helpers, list) or not all(isinstance(each, Mapping) for each in helpers):
        raise _refused("its initContainers are no list of containers", "Correct them.")
    for each in helpers:
        _variables(each)


def _check_container(container: Mapping[str, Any]) -> None:
    _refuse(container, "its container has ", _OF_CONTAINER)
    for name in ("requests", "limits"):
        _mapping(_mapping(container, "resources"), name)
    if _mapping(container, "lifecycle").get("preStop"):
        raise _refused(
            "its container has a preStop hook", "Remove it: a driver would hear of its end only after the hook."
        )
    for variable in _variables(container):
        if variable["name"] in _OWN_VARIABLES:
            raise _refused(f"its container sets {variable['name']}", "Remove it: it is set for each deployment.")


_RESTARTS = "the kubelet would start a driver again that the control log says has ended."
# Fields that a pod, its metadata or its container must not have, and why they are to be removed.
_SET_HERE = dict.fromkeys(
    ("name", "generateName", "namespace", "finalizers", "ownerReferences"),
    "name, namespace and finalizer of a driver's pod are set for each deployment.",
)
_KILLS = {"activeDeadlineSeconds": "the kubelet would kill the stream's driver."}
_OF_CONTAINER = {
    **dict.fromkeys(
        ("command", "args"), "Spark is started by the image's own entrypoint, with arguments for each deployment."
    ),
    **dict.fromkeys(("restartPolicy", "restartPolicyRules"), _RESTARTS),  # KEP-5307: above the pod's own
}


def _refuse(fields: Mapping[str, Any], what: str, refused: Mapping[str, str]) -> None:
    for name, why in refused.items():
        if fields.get(name):
            raise _refused(f"{what}{name}", f"Remove it: {why}")


def _variables(container: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the environment of a container, in which there is no secret."""
    variables = container.get("env") or []
    if not isinstance(variables, list) or not all(isinstance(each, Mapping) and each.get("name") for each in variables):
        raise _refused("its container's env is no list of variables", "Write name and value, or name and valueFrom.")
    try:
        refuse_secret_environment({v["name"]: str(v["value"]) for v in variables if v.get("value") is not None})
    except SecretInConf as error:
        raise _refused(
            f"its container's variable {error.fields['key']} looks like a secret, and a pod shows it to everybody who "
            "may read it",
            "Put it into a Secret, and refer to that: valueFrom.secretKeyRef.",
        ) from None
    return variables


def _mapping(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = parent.get(name) or {}
    if not isinstance(found, Mapping):
        raise _refused(f"its {name} is no mapping", "Correct it.")
    return found


def _refused(found: str, next_step: str) -> SpecError:
    return SpecError(f"The pod template cannot be used: {found}.", next_step=next_step)


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
            "it has a login" if connection.login else f"{without_user(connection.host)!r} has no credentials",
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
        raise refused(f"{without_user(host)!r} is no API server", "Write k8s://https://HOST:PORT.")
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
        raise refused(f"{key} in the extra is {without_user(url)!r}", "Write a URL with {namespace} and {pod} in it.")
    return url
