"""The pod of a driver: its name, how it is found, its manifest, and whether a namespace's quotas have room for it.

Spark runs in client mode in it: `spark-submit` in cluster mode would make a pod with a name of its own, and take 12 s.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.kubernetes_connection import (
    ADDRESS,
    PREFIX,
    SUBMISSION,
    KubernetesSettings,
    container_of,
)
from airflow_stream_provider.clusters.spark_defaults import DRIVER_ANNOTATION, When, defaults, several
from airflow_stream_provider.clusters.spark_sizes import ResourceRequest, executor_container, executors, overhead
from airflow_stream_provider.clusters.whose import Whose
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.ids import log_label

FINALIZER = PREFIX + "confirmed-gone"
"""Keeps the pod, and with it what the kubelet says of its end, until the end is in the control log."""
DRIVER_LABEL = PREFIX + "driver"
"""On the driver and its executors; the value is the name of the driver's pod without `_ENDING`."""
STREAM_ANNOTATION = PREFIX + "stream"
DEPLOYMENT_ANNOTATION = PREFIX + "deployment"
LOG_ANNOTATION = PREFIX + "log"
# A driver that gets SIGTERM waits up to 20 s for its batch boundary (runtime/driver_process.py); then executors stop.
GRACE_SECONDS = 60
MASTER_IN_POD = "https://kubernetes.default.svc"
"""Where a pod finds the API server; Spark's own default for `spark.kubernetes.driver.master`."""
OVERHEAD_FACTOR = "spark.kubernetes.memoryOverheadFactor"
"""Spark's key for driver and executors, where they have none of their own."""
# As spark-submit gives drivers in Python: Python is outside the JVM's heap.
_DRIVER_OVERHEAD = 0.4
_ENDING = "-driver"
# Spark allows 47 characters for the beginning of executors' names (Config.KUBERNETES_EXECUTOR_POD_NAME_PREFIX).
_LONGEST = 47
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def driver_label(deployment: str, log: str) -> str:
    """Return what names the driver of a deployment and its executors: always the same for one deployment of one log.

    The deployment's id and the beginning of the log's nonce, with a hash where the id is too long or has characters
    that no name may have.
    """
    ending = f"-{log_label(log)}" if log else ""
    room = _LONGEST - len(ending)
    if len(deployment) <= room and _LABEL.fullmatch(deployment):
        return deployment + ending
    digest = hashlib.sha256(deployment.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^a-z0-9]+', '-', deployment.lower()).strip('-')[: room - 9].strip('-')}-{digest}{ending}"


def pod_name(label: str) -> str:
    """Return the name of the driver's pod."""
    return label + _ENDING


def label_of(name: str) -> str:
    """Return what `driver_label` returned for the driver's pod of this name; empty: it is no such name."""
    label = name.removesuffix(_ENDING)
    return label if label != name and len(label) <= _LONGEST and _LABEL.fullmatch(label) else ""


def labels_of(whose: Whose) -> tuple[str, ...]:
    """Return the labels that drivers of a deployment can have: one that did not say its log has no nonce in it."""
    return tuple(dict.fromkeys((driver_label(whose.deployment, whose.log), driver_label(whose.deployment, ""))))


def command_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a driver's pod, as `Whose.runs` takes them; empty: it is none."""
    containers = pod.get("spec", {}).get("containers", ())
    return [word.replace("$$", "$") for container in containers for word in container.get("args") or ()]


def is_of(pod: Mapping[str, Any], job: Job) -> bool:
    """Return whether a pod is that of this job, and not another one of its name."""
    noted = pod["metadata"].get("annotations") or {}
    return noted.get(DEPLOYMENT_ANNOTATION) == job.deployment and noted.get(LOG_ANNOTATION, "") == job.log


def manifest(job: Job, settings: KubernetesSettings) -> dict[str, Any]:
    """Return the driver's pod: the template, with what runs this job.

    :raises SecretInConf: the job's conf or environment holds a secret.
    :raises SpecError: the conf asks for cores or memory that are none.
    """
    label = driver_label(job.deployment, job.log)
    pod = copy.deepcopy(dict(settings.template))
    metadata, spec, container = pod.setdefault("metadata", {}), pod["spec"], container_of(pod)
    metadata |= {"name": pod_name(label), "namespace": settings.namespace, "finalizers": [FINALIZER]}
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        # As Spark labels its own.
        "spark-role": "driver",
        "spark-app-selector": label,
        DRIVER_LABEL: label,
    }
    metadata["annotations"] = {
        **_annotations(defaults(job.conf, When.KUBERNETES)),
        **(metadata.get("annotations") or {}),
        **_annotations(job.conf),
        STREAM_ANNOTATION: job.stream,
        DEPLOYMENT_ANNOTATION: job.deployment,
        **({LOG_ANNOTATION: job.log} if job.log else {}),
    }
    spec["restartPolicy"] = "Never"
    spec.setdefault("terminationGracePeriodSeconds", GRACE_SECONDS)
    container["args"] = _arguments(job, settings, label)
    own = {**job.environment, SUBMISSION: f"{settings.namespace}/{pod_name(label)}"}
    container["env"] = [
        *(each for each in container.get("env") or () if each["name"] not in own),
        *({"name": name, "value": _literal(value)} for name, value in own.items()),
        {"name": ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    _add_resources(container, job.conf)
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def _annotations(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of the driver's pod that a conf names as Spark has them in cluster mode."""
    length = len(DRIVER_ANNOTATION)
    return {key[length:]: str(value) for key, value in conf.items() if key.startswith(DRIVER_ANNOTATION)}


def _arguments(job: Job, settings: KubernetesSettings, label: str) -> list[str]:
    """Return what the entrypoint of Spark's images gets: it runs spark-submit, below tini, which passes SIGTERM on."""
    conf = {
        "spark.kubernetes.container.image": settings.image,
        **job.properties(When.KUBERNETES, *several(executors(job.conf), job.conf)),
        "spark.submit.deployMode": "client",
        "spark.app.id": label,
        "spark.kubernetes.resource.type": "python",  # executors then get their spark.executor.pyspark.memory
        "spark.kubernetes.namespace": settings.namespace,
        # With it the executors are owned by this pod.
        "spark.kubernetes.driver.pod.name": pod_name(label),
        "spark.kubernetes.executor.podNamePrefix": label,
        f"spark.kubernetes.executor.label.{DRIVER_LABEL}": label,
    }
    if job.files:
        # As spark-submit does for --py-files, which would replace what the conf says.
        conf["spark.submit.pyFiles"] = ",".join((*job.files, *filter(None, [conf.get("spark.submit.pyFiles", "")])))
    return [
        *("driver", "--master", "k8s://" + _literal(conf.get("spark.kubernetes.driver.master") or MASTER_IN_POD)),
        *(word for key, value in conf.items() if value for word in ("--conf", _literal(f"{key}={value}"))),
        # Executors reach the driver by the address of its pod, so it needs no service.
        *("--conf", f"spark.driver.host=$({ADDRESS})"),
        *map(_literal, (job.launcher, *job.arguments)),
    ]


def _literal(text: str) -> str:
    """Return a text as Kubernetes must get it, which would replace ``$(NAME)`` in it."""
    return text.replace("$", "$$")


def _add_resources(container: dict[str, Any], conf: Mapping[str, str]) -> None:
    """Ask for what the conf says, where the template does not ask for something else."""
    asked = ResourceRequest.from_conf(conf)
    heap = asked.driver_memory
    memory = f"{heap + overhead(conf, 'driver', heap, default=_DRIVER_OVERHEAD, other_factor=OVERHEAD_FACTOR)}Mi"
    cores = str(conf.get("spark.kubernetes.driver.request.cores") or asked.driver_cores)
    limit = conf.get("spark.kubernetes.driver.limit.cores")
    resources = dict(container.get("resources") or {})
    resources["requests"] = {"cpu": cores, "memory": memory, **(resources.get("requests") or {})}
    resources["limits"] = {
        **({"cpu": str(limit)} if limit else {}),
        "memory": memory,
        **(resources.get("limits") or {}),
    }
    container["resources"] = resources


# The resources of a quota, by the requests of a pod. Limits of cores are left to the dry run: executors have none by
# default.
_COUNTED = {
    "cpu": "cpu",
    "requests.cpu": "cpu",
    "memory": "memory",
    "requests.memory": "memory",
    "limits.memory": "memory",
    "pods": "pods",
    "count/pods": "pods",
}
# The scopes of pods like ours. A quota with another scope counts other pods.
_SCOPES = {"NotTerminating", "NotBestEffort"}


def quantity(text: object) -> Decimal:
    """Return a quantity as Kubernetes writes it, such as ``500m`` or ``2Gi``.

    :raises SpecError: it is none.
    """
    from kubernetes.utils.quantity import parse_quantity

    try:
        found = Decimal(parse_quantity(str(text).strip()))
        if found.is_finite():
            return found
    except ValueError:
        pass
    raise SpecError(f"{text!r} is no quantity of Kubernetes.", next_step="Write one such as 500m, 2 or 1Gi.")


def asked_for(pod: Mapping[str, Any], conf: Mapping[str, str]) -> dict[str, Decimal]:
    """Return what a driver's pod and its executors ask for together: ``cpu``, ``memory`` in bytes, ``pods``.

    :param conf: the job's Spark conf, for its executors.
    :raises SpecError: the conf asks for cores or memory that are none.
    """
    driver = container_of(pod)["resources"]["requests"]
    number, memory = executors(conf), executor_container(conf, other_factor=OVERHEAD_FACTOR)
    cores = quantity(conf.get("spark.kubernetes.executor.request.cores") or conf.get("spark.executor.cores") or 1)
    return {
        "cpu": quantity(driver["cpu"]) + number * cores,
        "memory": quantity(driver["memory"]) + number * memory * Decimal(2**20),
        "pods": Decimal(1 + number),
    }


def lacks(asked: Mapping[str, Decimal], quotas: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what the quotas leave too little of, a phrase each; empty: there is room."""
    found = []
    for quota in quotas:
        spec, status = quota.get("spec") or {}, quota.get("status") or {}
        if spec.get("scopeSelector") or set(spec.get("scopes") or ()) - _SCOPES:
            continue
        for name, hard in (status.get("hard") or {}).items():
            what = _COUNTED.get(name)
            if what is None:
                continue
            free = quantity(hard) - quantity((status.get("used") or {}).get(name, 0))
            if asked[what] > free:
                found.append(
                    f"{_shown(what, free)} of {name} are free in the quota {quota['metadata']['name']}, and the driver "
                    f"and its executors ask for {_shown(what, asked[what])}"
                )
    return found


def _shown(what: str, amount: Decimal) -> str:
    if what == "memory":
        return f"{int(amount / 2**20)} MiB"
    return f"{amount.normalize():f}"
