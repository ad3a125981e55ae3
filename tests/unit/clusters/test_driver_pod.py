from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_stream_provider.clusters import SecretInConf, Whose
from airflow_stream_provider.clusters.driver_pod import (
    FINALIZER,
    command_of,
    driver_label,
    is_of,
    label_of,
    labels_of,
    manifest,
    pod_name,
)
from airflow_stream_provider.clusters.kubernetes_connection import CONTAINER
from airflow_stream_provider.lifecycle.errors import SpecError
from tests.support.driver_pods import pod_of, settings
from tests.support.jobs import job

LOG = "0a1b2c3d" + "0" * 24
DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def conf_of(pod: dict[str, Any]) -> dict[str, str]:
    words = pod["spec"]["containers"][0]["args"]
    pairs = (words[at + 1].partition("=") for at, word in enumerate(words) if word == "--conf")
    return {key: value for key, _, value in pairs}


@pytest.mark.parametrize(
    "deployment", ["orders-2-1a2b3c4d", "a", "my_stream-2-1a2b", "x-", "Orders", "o" * 128, "1" * 47, "_" * 40 + "a"]
)
@pytest.mark.parametrize("log", ["", LOG])
def test_a_name_is_a_dns_label_with_room_for_executors(deployment: str, log: str) -> None:
    label = driver_label(deployment, log)
    assert DNS_LABEL.fullmatch(label)
    # Spark adds -exec- and up to ten digits.
    assert len(label) <= 47
    assert DNS_LABEL.fullmatch(pod_name(label))
    assert label_of(pod_name(label)) == label


def test_names_differ_by_deployment_and_log_and_say_both() -> None:
    assert driver_label("orders-2-1a2b", LOG) == "orders-2-1a2b-0a1b2c3d"
    names = {driver_label(each, LOG) for each in ("my_a-1", "my-a-1", "o" * 60, "o" * 61, "My-a-1")}
    assert len(names) == 5
    assert label_of("driver-20200101000000-0000") == ""
    assert label_of("X-driver") == ""
    assert labels_of(Whose("a", LOG)) == ("a-0a1b2c3d", "a")
    assert labels_of(Whose("a")) == ("a",)


def test_executors_that_failed_long_ago_are_no_reason_to_give_up() -> None:
    name = "spark.executor.failuresValidityInterval"
    assert conf_of(pod_of(job()))[name] == "1h"
    assert conf_of(pod_of(job(conf={name: "10m"})))[name] == "10m"


def test_the_pod_says_whose_it_is_and_starts_spark_in_client_mode() -> None:
    given = job(log=LOG, conf={"spark.executor.instances": "1", "spark.app.id": "mine"})
    pod = pod_of(given)
    name = "orders-2-1a2b-0a1b2c3d"
    metadata, spec = pod["metadata"], pod["spec"]
    assert (pod["kind"], metadata["name"], metadata["namespace"]) == ("Pod", f"{name}-driver", "streams")
    assert metadata["finalizers"] == [FINALIZER]
    assert metadata["labels"] == {
        "spark-role": "driver",
        "spark-app-selector": name,
        "airflow-stream-provider/driver": name,
    }
    assert is_of(pod, given)
    assert not is_of(pod, job(log="ff" * 16))
    assert (spec["restartPolicy"], spec["serviceAccountName"]) == ("Never", "spark")
    (container,) = spec["containers"]
    assert "command" not in container
    assert container["args"][:3] == ["driver", "--master", "k8s://https://kubernetes.default.svc"]
    assert container["args"][-len(given.arguments) - 1 :] == [given.launcher, *given.arguments]
    conf = conf_of(pod)
    assert conf["spark.driver.host"] == "$(SPARK_DRIVER_BIND_ADDRESS)"
    assert conf["spark.app.id"] == conf["spark.kubernetes.executor.podNamePrefix"] == name
    assert conf["spark.kubernetes.driver.pod.name"] == f"{name}-driver"
    assert conf["spark.kubernetes.executor.label.airflow-stream-provider/driver"] == name
    assert conf["spark.kubernetes.container.image"] == "spark:4.0.0"
    assert conf["spark.submit.pyFiles"].split(",") == list(given.files)
    assert {"name": "AIRFLOW_STREAM_SUBMISSION", "value": f"streams/{name}-driver"} in container["env"]
    assert given.whose.runs(command_of(pod))
    assert Whose(given.deployment, "ff" * 16).runs(command_of(pod)) is False


def test_a_release_that_is_fetched_is_given_by_its_url() -> None:
    words = pod_of(job(release_dir="s3a://bucket/abc"))["spec"]["containers"][0]["args"]
    assert "s3a://bucket/abc/launcher.py" in words
    assert not any("pyFiles" in word for word in words)


def test_nothing_that_a_person_wrote_is_expanded_by_kubernetes() -> None:
    arguments = ("--control", "file:///a", "--deployment", "orders-2-1a2b", "--", "app.py", "$(HOME) $$x")
    pod = pod_of(job(arguments=arguments, environment={"PLACE": "$(POD)"}))
    assert pod["spec"]["containers"][0]["args"][-1] == "$$(HOME) $$$$x"
    assert command_of(pod)[-1] == "$(HOME) $$x"
    assert {"name": "PLACE", "value": "$$(POD)"} in pod["spec"]["containers"][0]["env"]


def test_the_template_is_extended_and_not_changed() -> None:
    variable = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "kafka", "key": "token"}}}
    container = {"name": CONTAINER, "env": [variable, {"name": "REGION", "value": "us"}]}
    container["resources"] = {"requests": {"cpu": "250m"}, "limits": {"nvidia.com/gpu": 1}}  # type: ignore[assignment]
    template = {
        "metadata": {"labels": {"team": "orders"}, "annotations": {"a": "b"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 120, "tolerations": [{"key": "x"}]},
    }
    given = settings(template=template)
    pod = manifest(job(environment={"REGION": "eu"}), given)
    assert pod == manifest(job(environment={"REGION": "eu"}), given)
    (made,) = pod["spec"]["containers"]
    assert variable in made["env"]
    assert [each["value"] for each in made["env"] if each["name"] == "REGION"] == ["eu"]
    assert made["resources"] == {
        "requests": {"cpu": "250m", "memory": "1433Mi"},
        "limits": {"memory": "1433Mi", "nvidia.com/gpu": 1},
    }
    assert (pod["metadata"]["labels"]["team"], pod["metadata"]["annotations"]["a"]) == ("orders", "b")
    assert (pod["spec"]["terminationGracePeriodSeconds"], pod["spec"]["tolerations"]) == (120, [{"key": "x"}])
    assert "args" not in given.template["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("conf", "memory"),
    [
        ({}, "1433Mi"),
        ({"spark.driver.memory": "512m"}, "896Mi"),
        ({"spark.driver.memoryOverhead": "100m"}, "1124Mi"),
        ({"spark.driver.memoryOverheadFactor": "0.5"}, "1536Mi"),
        ({"spark.kubernetes.memoryOverheadFactor": "0.6"}, "1638Mi"),
    ],
)
def test_the_driver_s_memory_is_reckoned_as_spark_does(conf: dict[str, str], memory: str) -> None:
    resources = pod_of(job(conf=conf))["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "1", "memory": memory}, "limits": {"memory": memory}}


def test_what_cannot_be_in_a_pod_is_refused() -> None:
    with pytest.raises(SecretInConf):
        pod_of(job(conf={"spark.ssl.keyPassword": "x"}))
    with pytest.raises(SpecError, match="memoryOverheadFactor"):
        pod_of(job(conf={"spark.driver.memoryOverheadFactor": "half"}))
