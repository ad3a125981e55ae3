"""Whether a namespace's quotas have room for a driver and its executors. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from airflow_stream_provider.clusters.driver_pod import OVERHEAD_FACTOR
from airflow_stream_provider.clusters.pod_template import container_of
from airflow_stream_provider.clusters.spark_sizes import executor_container, executors
from airflow_stream_provider.lifecycle.errors import SpecError

_SUFFIXES = {
    **{"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(n|u|m|k|[MGTPE]|[KMGTPE]i)?")
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
    found = _QUANTITY.fullmatch(str(text).strip())
    try:
        assert found is not None
        return Decimal(found[1]) * _SUFFIXES[found[2] or ""]
    except (AssertionError, ArithmeticError):
        raise SpecError(
            f"{text!r} is no quantity of Kubernetes.", next_step="Write one such as 500m, 2 or 1Gi."
        ) from None


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
