"""The pod template of a Kubernetes cluster's connection: read it, and refuse what a driver's pod cannot have.

People extend the driver's pod with it: image, service account, volumes, node selector, secrets by reference.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

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
