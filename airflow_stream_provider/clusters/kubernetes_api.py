"""Ask the API server of a Kubernetes cluster about pods, quotas and nodes, with the client of Airflow's provider.

Objects come and go as plain data. Every question has a deadline, and none is repeated here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.clusters.bounded_http import Unanswered
from airflow_stream_provider.clusters.kubernetes_connection import KubernetesSettings
from airflow_stream_provider.clusters.log_tail import READ_BYTES
from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError

if TYPE_CHECKING:
    from kubernetes.client import CoreV1Api

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
# The kubelet finds the lines from the end, and returns so many bytes of them from the first.
_LOG_LINES, _LOG_BYTES = 200, 1024 * 1024
NO_ROOM = "Ask for less in `conf`, stop a driver, or have the quota raised. Nothing was submitted."


class Refused(ClusterError):
    """The API server has answered, and did not do what was asked. `fields["status"]` is the HTTP status."""

    @property
    def status(self) -> int:
        """The HTTP status, such as 409."""
        return int(self.fields["status"])


class KubernetesApi:
    """The API server. It is connected to when it is first asked.

    :raises SpecError: from every method: the client is not installed, or the Kubernetes connection cannot be used.
    """

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self._client: CoreV1Api | None = None

    @property
    def address(self) -> str:
        """Its URL."""
        return str(self._connected().api_client.configuration.host)

    def create_pod(self, pod: Mapping[str, Any], *, dry_run: bool = False) -> None:
        """Create a pod, or only look whether it could be created: by quotas, limits and admission.

        :raises Refused: it was not created; 409: there is one of this name.
        :raises Unanswered: it may have been created, if the question was sent.
        """
        options = {"dry_run": "All"} if dry_run else {}
        self._ask("create_namespaced_pod", pod["metadata"]["namespace"], pod, **options)

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a pod; None if there is none of this name."""
        return self._found("read_namespaced_pod", name, namespace)

    def pods(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """Return the pods with these labels."""
        return _items(self._ask("list_namespaced_pod", namespace, label_selector=selector))

    def log_end(self, namespace: str, name: str, container: str) -> str:
        """Return the last lines of what a container of a pod has written."""
        from urllib3.exceptions import HTTPError

        # Not as the client would return it: it makes Python's notation for bytes of it.
        options = {"container": container, "tail_lines": _LOG_LINES, "limit_bytes": _LOG_BYTES}
        answer = self._call("read_namespaced_pod_log", name, namespace, **options, _preload_content=False)
        try:
            data: bytes = answer.read(_LOG_BYTES)
        except (HTTPError, OSError):
            raise self._unheard("did not answer", sent=True) from None
        finally:
            answer.close()
        return data[-READ_BYTES:].decode(errors="replace")

    def delete_pod(self, namespace: str, name: str, grace: float) -> None:
        """Have a pod ended: SIGTERM, and SIGKILL after the grace. One that is not there is no error."""
        self._found("delete_namespaced_pod", name, namespace, grace_period_seconds=int(grace))

    def delete_pods(self, namespace: str, selector: str, grace: float) -> None:
        """Have all pods with these labels ended."""
        self._ask(
            "delete_collection_namespaced_pod", namespace, label_selector=selector, grace_period_seconds=int(grace)
        )

    def drop_finalizer(self, pod: Mapping[str, Any], finalizer: str) -> None:
        """Take a finalizer off a pod that has it; not if somebody changes the pod's finalizers meanwhile."""
        metadata = pod["metadata"]
        place = f"/metadata/finalizers/{metadata['finalizers'].index(finalizer)}"
        steps = [{"op": "test", "path": place, "value": finalizer}, {"op": "remove", "path": place}]
        self._found("patch_namespaced_pod", metadata["name"], metadata["namespace"], steps)

    def quotas(self, namespace: str) -> list[dict[str, Any]]:
        """Return the quotas of a namespace."""
        return _items(self._ask("list_namespaced_resource_quota", namespace))

    def node(self, name: str) -> dict[str, Any] | None:
        """Return a node; None if the cluster has none of this name."""
        return self._found("read_node", name)

    def _found(self, method: str, *arguments: Any, **options: Any) -> dict[str, Any] | None:
        try:
            return self._ask(method, *arguments, **options)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def _ask(self, method: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Call a method of the client, and return what it returns as the API server has written it."""
        answer = self._call(method, *arguments, **options)
        found: dict[str, Any] = self._connected().api_client.sanitize_for_serialization(answer)
        return found

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        from kubernetes.client import ApiException
        from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ProxyError

        client = self._connected()
        deadline = (CONNECT_SECONDS, ANSWER_SECONDS)
        try:
            return getattr(client, method)(*arguments, **options, _request_timeout=deadline)
        except ApiException as error:
            if not error.status:  # what the client makes of an error of TLS, also of one in the middle of an answer
                raise self._unheard("cannot be asked over TLS", sent=True) from None
            raise self._refused(error, method) from None
        except (ConnectTimeoutError, NewConnectionError, ProxyError):
            raise self._unheard("cannot be reached", sent=False) from None
        # Not chained: errors of the client may quote what was sent.
        except (HTTPError, OSError):
            raise self._unheard("did not answer", sent=True) from None

    def _unheard(self, what: str, *, sent: bool) -> Unanswered:
        return Unanswered(
            f"The Kubernetes API server {self.address}",
            what,
            sent=sent,
            next_step="Check the address and the certificates of the connection, and the network between Airflow's "
            "machines and the API server.",
        )

    def _refused(self, error: Any, method: str) -> Refused:
        said = _message(error.body) or str(error.reason or "")
        if error.status == 401:
            found, next_step = "does not accept the credentials", "Renew the token or the kubeconfig of the connection."
        elif error.status == 403 and "exceeded quota" in said:
            found, next_step = f"has no room: {said}", NO_ROOM
        elif error.status == 403 and " cannot " in said:
            found, next_step = f"does not allow it: {said}", "Give Airflow's account the Role of docs/clusters.md."
        else:
            found = f"refuses {method} with HTTP {error.status}: {said}"
            next_step = "Correct what it says: in the pod template, the connection, or the stream's conf."
        return Refused(
            f"The Kubernetes API server {self.address} {found}".rstrip(". ") + ".",
            next_step=next_step,
            status=error.status,
            said=said,
            # By such a field others know that there is only no room; see operators/check.py.
            **({"free_in_quota": said} if next_step is NO_ROOM else {}),
        )

    def _connected(self) -> CoreV1Api:
        if self._client is None:
            self._client = connect(self._settings)
        return self._client


def connect(settings: KubernetesSettings) -> CoreV1Api:
    """Return the client of Airflow's Kubernetes hook. Nothing is sent yet.

    :raises SpecError: it is not installed, or the Kubernetes connection cannot be used.
    """
    try:
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
        from airflow.sdk.exceptions import AirflowException
        from kubernetes import client, config
    except ImportError as error:
        raise SpecError(
            "Airflow's client for Kubernetes is not installed on this machine.",
            next_step="Install airflow-stream-provider[cncf-kubernetes] for all of Airflow's components.",
        ) from error
    # Our own configuration: the hook would put it into a global place, and read another thread's cluster there.
    configuration = client.Configuration()
    configuration.retries = False
    # Our own code judges what a newer API server leaves out or adds.
    configuration.client_side_validation = False
    extra = settings.kubernetes
    try:
        if extra is not None and extra.get("in_cluster"):
            # For this one the hook sets the global place only.
            config.load_incluster_config(client_configuration=configuration)
        hook = KubernetesHook(
            conn_id=None,
            kubernetes_conn_id=None,
            client_configuration=configuration,
            config_dict=_kubeconfig(settings) if extra is None else None,
        )
        # It would read the connection now, which a trigger's threads cannot.
        hook.conn_extras = dict(extra or {})
        return hook.core_v1_client
    # Also what the client makes of files that are no kubeconfig.
    except (AirflowException, config.ConfigException, OSError, TypeError, ValueError) as error:
        raise SpecError(
            f"The Kubernetes connection cannot be used: {type(error).__name__}.",
            next_step="Check its kubeconfig or in_cluster, on every machine that runs Airflow's tasks and triggers: "
            "`kubectl auth whoami` with the same file.",
        ) from error


def _kubeconfig(settings: KubernetesSettings) -> dict[str, Any]:
    cluster = {"server": settings.address}
    if settings.ca_file:
        cluster["certificate-authority"] = settings.ca_file
    name = "streams"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": settings.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }


def _items(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(answer.get("items") or ())


def _message(body: Any) -> str:
    """Return what the API server says in its answer; empty: it is none of its answers."""
    try:
        found = json.loads(body)
    except (TypeError, ValueError):
        return ""
    return str(found.get("message") or "") if isinstance(found, dict) else ""
