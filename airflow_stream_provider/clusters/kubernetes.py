"""Run drivers as pods of a Kubernetes cluster: a pod of our own for each, which is never started a second time."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from typing_extensions import override

from airflow_stream_provider.clusters.bounded_http import Unanswered
from airflow_stream_provider.clusters.cluster import (
    Cluster,
    ClusterFacts,
    DriverView,
    FoundDrivers,
    Remains,
    SubmitUnclear,
)
from airflow_stream_provider.clusters.driver_pod import (
    DEPLOYMENT_ANNOTATION,
    DRIVER_LABEL,
    LOG_ANNOTATION,
    STREAM_ANNOTATION,
    asked_for,
    command_of,
    is_of,
    label_of,
    labels_of,
    lacks,
    manifest,
)
from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.kubernetes_api import NO_ROOM, KubernetesApi, Refused
from airflow_stream_provider.clusters.kubernetes_connection import CONTAINER, KubernetesSettings
from airflow_stream_provider.clusters.log_tail import tail
from airflow_stream_provider.clusters.pod_status import NodeSays, PodLook, driver_state, ended, let_go, waits_for
from airflow_stream_provider.clusters.whose import Whose
from airflow_stream_provider.lifecycle.errors import ClusterError
from airflow_stream_provider.lifecycle.texts import count

log = logging.getLogger(__name__)

# Seconds from SIGTERM to SIGKILL when we end a pod; a node that is drained gives it `driver_pod.GRACE_SECONDS`.
KILL_SECONDS = 10.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_DRIVERS = f"{DRIVER_LABEL},spark-role=driver"


class KubernetesCluster(Cluster):
    """Drivers as pods of our own.

    The submission id is ``<namespace>/<name of the pod>``. The name is made of deployment and control log, so that a
    second submission is refused by the API server. A finalizer keeps the pod until its end is in the control log.

    :param settings: what its connection says.
    """

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self._api = KubernetesApi(settings)

    @override
    def answer(self) -> str:
        namespace = self._settings.namespace
        drivers = count(len(self._api.pods(namespace, _DRIVERS)), "pod")
        return f"The API server at {self._api.address} answers; the namespace {namespace} has {drivers} of drivers."

    @override
    def check(self, job: Job) -> None:
        """Check by a dry run and the namespace's quotas that there is room.

        If the job's driver is there already and waits, this says what for.
        """
        pod = manifest(job, self._settings)
        try:
            self._api.create_pod(pod, dry_run=True)
        except Refused:
            found = self._own(job, pod["metadata"]["name"])
            if found is None:
                raise
            _check_waiting(found)
            return
        missing = lacks(asked_for(pod, job.conf), self._api.quotas(self._settings.namespace))
        if missing:
            raise ClusterError(
                f"The namespace {self._settings.namespace} has no room for {job.app_name}: {'; '.join(missing)}.",
                next_step=NO_ROOM,
                free_in_quota="; ".join(missing),
            )

    @override
    def submit(self, job: Job, note: Callable[[str], str] = str) -> str:
        """Create the driver's pod and return its submission id.

        A pod of this deployment that is there already is its driver. One whose creation was not answered is searched
        for before it is created again, and has the same name then.
        """
        pod = manifest(job, self._settings)
        name = pod["metadata"]["name"]
        try:
            self._api.create_pod(pod)
            return self._submission(name)
        except Unanswered as error:
            problem: ClusterError = error
            sent = error.sent
        except Refused as error:
            problem = error
            # Not only after 409: a quota that the first try has filled is looked at before the name.
            with suppress(Refused, Unanswered):
                if self._own(job, name) is not None:
                    return self._submission(name)
            sent = error.status >= 500 or error.status == 409
        if not sent:
            raise problem
        raise SubmitUnclear(
            f"The API server may or may not have accepted the driver's pod {name}. {problem.message}",
            next_step="Nothing to do: the pod is searched for before anything is submitted again.",
            deployment=job.deployment,
        )

    @override
    def find(self, whose: Whose, since: float, conf: Mapping[str, str] | None = None) -> FoundDrivers:
        """Return the deployment's drivers by the label and the arguments of their pods.

        It is certain except where a pod does not name its log: a submission that is still on its way arrives under the
        same name as the next one.
        """
        alive: list[str] = []
        over: list[str] = []
        certain = True
        for pod in self._api.pods(self._settings.namespace, f"{_any(labels_of(whose))},spark-role=driver"):
            ours = whose.runs(command_of(pod))
            has_ended = driver_state(pod).terminal
            if ours:
                (over if has_ended else alive).append(self._submission(pod["metadata"]["name"]))
            elif ours is None and not has_ended:
                certain = False
        return FoundDrivers(tuple(alive), tuple(over), certain)

    @override
    def running(self, stream: str, log: str) -> Mapping[str, str]:
        """Return the drivers' pods that have not ended, by their annotations."""
        found = {}
        for pod in self._api.pods(self._settings.namespace, _DRIVERS) if log else ():
            noted = pod["metadata"].get("annotations") or {}
            ours = (noted.get(STREAM_ANNOTATION), noted.get(LOG_ANNOTATION)) == (stream, log)
            if ours and not driver_state(pod).terminal:
                found[self._submission(pod["metadata"]["name"])] = str(noted.get(DEPLOYMENT_ANNOTATION) or "")
        return found

    @override
    def look(self, ids: Collection[str], whose: Whose | None = None) -> Mapping[str, DriverView]:
        """Return what the API server says of these pods; LOST also if their node does not answer or is gone.

        It asks the nodes that seem to fail. A pod's arguments or its name say whose it is.
        """
        places = {each: self._place(each) for each in ids}
        pods: dict[tuple[str, str], dict[str, Any] | None] = {}
        known = {place for place in places.values() if place}
        if len(known) > 1:
            for namespace in sorted({namespace for namespace, _ in known}):
                pods |= {(namespace, pod["metadata"]["name"]): pod for pod in self._api.pods(namespace, _DRIVERS)}
        else:
            pods = {place: self._api.pod(*place) for place in known}
        look = PodLook(self._api)

        def view(place: tuple[str, str] | None) -> DriverView:
            if place is None:
                return DriverView(look.state(None))
            pod = pods.get(place)
            return DriverView(
                look.state(pod), self._links(*place), None if whose is None else _is_ours(place[1], pod, whose)
            )

        return {each: view(place) for each, place in places.items()}

    @override
    def kill(self, submission: str, applications: Collection[str] = ()) -> None:
        """Have the driver's pod and those of its executors ended: SIGTERM, and SIGKILL after 10 s.

        The executors are ended as well because the finalizer of the driver's pod keeps Kubernetes from doing it. A pod
        that is no driver of this provider stays.

        :raises ClusterError: the API server does not answer, or refuses.
        """
        place = self._place(submission)
        if place is None:
            return
        label = label_of(place[1])
        found = self._api.pod(*place)
        if label and found is not None and _is_driver(found, label):
            self._api.delete_pod(*place, KILL_SECONDS)
        if label:
            self._api.delete_pods(place[0], f"{_any([label])},spark-role=executor", KILL_SECONDS)

    @override
    def remains(
        self, submission: str, whose: Whose, applications: Collection[str] = (), hosts: Collection[str] | None = None
    ) -> Remains:
        """Return the pods of the driver and its executors whose end the kubelet has not reported."""
        place = self._place(submission)
        namespace, name = place or (self._settings.namespace, "")
        labels = [each for each in (label_of(name), *labels_of(whose)) if each]
        alive: list[str] = []
        lost: list[str] = []
        try:
            pods = [None if place is None else self._api.pod(*place)]
            pods += self._api.pods(namespace, f"{_any(labels)},spark-role=executor")
            look = PodLook(self._api)
            for pod in pods:
                if pod is None:
                    lost.append(
                        f"There is no pod {submission}: somebody has taken its finalizer off, and it may run still."
                    )
                elif not ended(pod):
                    says, sentence = look.left(pod)
                    if says is NodeSays.GONE:
                        log.info("%s It counts as gone.", sentence)
                    else:
                        (alive if says is NodeSays.ALIVE else lost).append(sentence)
        except ClusterError as error:
            return Remains((error.message,))
        return Remains(tuple(alive), tuple(lost))

    def _links(self, namespace: str, name: str) -> dict[str, str]:
        """Return links to the driver's log and, if the connection says where, its Spark UI."""
        settings = self._settings
        own = f"{self._api.address}/api/v1/namespaces/{namespace}/pods/{name}/log"
        links = {"driver log": settings.log_url.format(namespace=namespace, pod=name) if settings.log_url else own}
        if settings.ui_url:
            links["Spark UI"] = settings.ui_url.format(namespace=namespace, pod=name)
        return links

    @override
    def log_tail(self, submission: str) -> str:
        """Return the end of what the driver's container has written, as long as its node has it."""
        place = self._place(submission)
        try:
            return "" if place is None else tail(log=self._api.log_end(*place, CONTAINER))
        except ClusterError:
            return ""

    @override
    def facts(self, submission: str, applications: Collection[str] = ()) -> ClusterFacts:
        """Return the driver's pod and, if Airflow's account may get nodes, the labels of its node."""
        place = self._place(submission)
        pod = (None if place is None else self._api.pod(*place)) or {}
        node = (pod.get("spec") or {}).get("nodeName")
        labels = None
        with suppress(Refused):
            labels = ((self._api.node(node) or {}).get("metadata") or {}).get("labels") if node else None
        return ClusterFacts(pod=pod, node_labels=labels)

    @override
    def forget(self, over: Collection[Whose]) -> None:
        """Let go of the pods of drivers that have ended, and remove them a day after that."""
        pods = self._api.pods(self._settings.namespace, _DRIVERS)
        over_here = [pod for pod in pods if any(whose.runs(command_of(pod)) for whose in over)]
        let_go(self._api, over_here, KILL_SECONDS)

    def _own(self, job: Job, name: str) -> dict[str, Any] | None:
        """Return the pod of this name, if there is one.

        :raises ClusterError: it is not of this job.
        """
        found = self._api.pod(self._settings.namespace, name)
        if found is not None and not is_of(found, job):
            raise ClusterError(
                f"There is a pod {name} in the namespace {self._settings.namespace} that is not of deployment "
                f"{job.deployment} of this control log.",
                next_step="Nothing was submitted. Its annotations say whose it is. Deploy again, which gives another "
                "name, or remove the pod once nobody needs it.",
                pod=name,
            )
        return found

    def _submission(self, name: str) -> str:
        return f"{self._settings.namespace}/{name}"

    def _place(self, submission: str) -> tuple[str, str] | None:
        """Return namespace and name of a driver's pod; None: it is no pod's, and nothing to put into a URL."""
        namespace, _, name = submission.rpartition("/")
        place = (namespace or self._settings.namespace, name)
        return place if all(map(_NAME.fullmatch, place)) else None


def _any(labels: Collection[str]) -> str:
    """Return a selector for pods of these drivers."""
    return f"{DRIVER_LABEL} in ({','.join(dict.fromkeys(labels))})"


def _is_ours(name: str, pod: Mapping[str, Any] | None, whose: Whose) -> bool | None:
    """Return whether a pod is of a deployment: by its arguments or its name, in any namespace."""
    label = label_of(name)
    if not label:
        return None  # nothing that `kill` takes for a driver
    if label in labels_of(whose)[: 1 if whose.log else 0]:
        return True  # made of deployment and log
    return label in labels_of(whose) if pod is None else whose.runs(command_of(pod))


def _is_driver(pod: Mapping[str, Any], label: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return labels.get(DRIVER_LABEL) == label and labels.get("spark-role") == "driver"


def _check_waiting(pod: Mapping[str, Any]) -> None:
    why = "" if driver_state(pod).terminal else waits_for(pod)
    if why:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        raise ClusterError(
            f"The driver's pod {name} waits: {why}".rstrip(". ") + ".",
            next_step=f"Correct what it says; `kubectl describe pod --namespace {namespace} {name}` tells more.",
        )
