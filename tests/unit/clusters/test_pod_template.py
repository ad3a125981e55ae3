from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_stream_provider.clusters.kubernetes_connection import CONTAINER, container_of, read_template
from airflow_stream_provider.lifecycle.errors import SpecError

GOOD = f"""
kind: Pod
metadata:
  labels: {{team: orders}}
spec:
  nodeSelector: {{disk: fast}}
  containers:
    - name: {CONTAINER}
      env:
        - {{name: KAFKA_PASSWORD, valueFrom: {{secretKeyRef: {{name: kafka, key: password}}}}}}
"""


def broken(**changes: Any) -> dict[str, Any]:
    """The template with changes: `metadata`, `spec` and `container` are merged."""
    pod: dict[str, Any] = yaml.safe_load(GOOD)
    pod["metadata"] |= changes.get("metadata", {})
    pod["spec"]["containers"][0] |= changes.get("container", {})
    pod["spec"] |= changes.get("spec", {})
    return pod | {"kind": changes.get("kind", "Pod")}


def test_a_template_is_read_from_a_mapping_a_text_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(GOOD)
    expected = yaml.safe_load(GOOD)
    assert read_template(GOOD) == read_template(expected) == read_template(str(file)) == expected
    assert read_template(expected) is not expected
    assert container_of(read_template(None)) == {"name": CONTAINER}


@pytest.mark.parametrize(
    ("template", "named"),
    [
        (broken(kind="Deployment"), "'Deployment'"),
        (broken(metadata={"name": "mine"}), "metadata.name"),
        (broken(metadata={"namespace": "mine"}), "metadata.namespace"),
        (broken(metadata={"finalizers": ["a/b"]}), "metadata.finalizers"),
        (broken(metadata={"labels": {"airflow-stream-provider/driver": "x"}}), "airflow-stream-provider/driver"),
        (broken(metadata={"labels": {"spark-role": "x"}}), "spark-role in metadata.labels"),
        (broken(metadata={"annotations": {"airflow-stream-provider/log": "x"}}), "metadata.annotations"),
        (broken(metadata={"labels": ["x"]}), "labels is no mapping"),
        (broken(spec={"restartPolicy": "Always"}), "restartPolicy is 'Always'"),
        (broken(spec={"activeDeadlineSeconds": 60}), "activeDeadlineSeconds"),
        (broken(spec={"containers": []}), "its containers are none"),
        (broken(spec={"containers": "x"}), "its containers are None"),
        (broken(spec={"containers": [{"name": CONTAINER}, {"name": "vector"}]}), "'vector'"),
        (broken(container={"name": "spark"}), "its containers are 'spark'"),
        (broken(container={"command": ["sh"]}), "its container has command"),
        (broken(container={"args": ["driver"]}), "its container has args"),
        (broken(container={"restartPolicy": "Always"}), "its container has restartPolicy"),
        (broken(container={"restartPolicyRules": [{"action": "Restart"}]}), "its container has restartPolicyRules"),
        (broken(container={"resources": [1]}), "resources is no mapping"),
        (broken(container={"resources": {"limits": ["2g"]}}), "limits is no mapping"),
        (broken(spec={"initContainers": "x"}), "initContainers are no list"),
        (
            broken(spec={"initContainers": [{"name": "i", "env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}]}),
            "DB_PASSWORD",
        ),
        (broken(container={"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}), "preStop"),
        (broken(container={"env": {"A": "b"}}), "env is no list"),
        (broken(container={"env": [{"name": "SPARK_DRIVER_BIND_ADDRESS", "value": "x"}]}), "SPARK_DRIVER_BIND_ADDRESS"),
        (broken(container={"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}), "DB_PASSWORD"),
        ("metadata: [\n", "is no YAML"),
        ("just\ntext", "is no YAML mapping"),
        ("/nowhere/pod.yaml", "/nowhere/pod.yaml cannot be read: No such file"),
    ],
)
def test_what_a_driver_s_pod_cannot_have_is_refused_in_one_sentence(template: Any, named: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_template(template)
    assert named in refused.value.message
    assert refused.value.next_step
    assert "hunter2" not in str(refused.value)
