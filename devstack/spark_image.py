"""The one image of the stand-in for Kubernetes: the Spark of this Python, with an entrypoint as Spark's images have."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from devstack.ports import HOST
from devstack.processes import java
from devstack.spark import bundled_spark, spark_class_path

IMAGE = "stand-in/spark:4.0.0"
_SETTINGS = ("SPARK_HOME", "SPARK_DIST_CLASSPATH", "SPARK_CONF_DIR", "JAVA_TOOL_OPTIONS")
_VARIABLE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")


def image_environment() -> dict[str, str]:
    """Return the environment of `IMAGE`; our own says where it is to differ from Spark, Java and Python as they are.

    :raises StackError: Java or Spark is missing.
    """
    return {
        "SPARK_HOME": str(bundled_spark()),
        "JAVA": java(),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
        # Without it Spark would look for a kubeconfig of whoever runs this.
        "KUBECONFIG": os.devnull,
        **{name: os.environ[name] for name in _SETTINGS if name in os.environ},
    }


def entrypoint(args: list[str], environment: Mapping[str, str]) -> list[str]:
    """Return what the entrypoint of Spark's images runs; anything else it runs as it is."""
    if args[:1] == ["driver"]:
        address = environment["SPARK_DRIVER_BIND_ADDRESS"]
        return [
            *(f"{environment['SPARK_HOME']}/bin/spark-submit", "--conf", f"spark.driver.bindAddress={address}"),
            *("--conf", f"spark.executorEnv.SPARK_DRIVER_POD_IP={address}", "--deploy-mode", "client", *args[1:]),
        ]
    if args[:1] != ["executor"]:
        return args
    numbered = sorted((int(n.rpartition("_")[2]), v) for n, v in environment.items() if n.startswith("SPARK_JAVA_OPT_"))
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    path = f"{spark_class_path(Path(environment['SPARK_HOME']))}:{environment.get('SPARK_DIST_CLASSPATH', '')}"
    return [
        *(environment["JAVA"], *(option for _, option in numbered), f"-Xms{memory}", f"-Xmx{memory}", "-cp", path),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", environment["SPARK_DRIVER_URL"], "--executor-id", environment["SPARK_EXECUTOR_ID"]),
        *("--cores", environment["SPARK_EXECUTOR_CORES"], "--app-id", environment["SPARK_APPLICATION_ID"]),
        *("--hostname", environment["SPARK_EXECUTOR_POD_IP"]),
        *("--resourceProfileId", environment["SPARK_RESOURCE_PROFILE_ID"]),
        *("--podName", environment["SPARK_EXECUTOR_POD_NAME"]),
    ]


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """Return a text with its ``$(NAME)`` replaced, as a kubelet does it; ``$$`` is a single dollar."""
    return _VARIABLE.sub(lambda m: environment.get(m[1], m[0]) if m[1] else "$", text)
