from __future__ import annotations

from devstack.spark_image import entrypoint, expanded


def test_variables_are_expanded_as_a_kubelet_does_it() -> None:
    known = {"A": "1", "B_C": "2"}
    assert expanded("$(A) $(B_C) $(NONE) $A $$(A) $$$$x $(A", known) == "1 2 $(NONE) $A $(A) $$x $(A"


def test_the_entrypoint_runs_spark_submit_for_drivers_and_anything_else_as_it_is() -> None:
    image = {"SPARK_HOME": "/spark", "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1"}
    found = entrypoint(["driver", "--master", "k8s://x"], image)
    assert found[0] == "/spark/bin/spark-submit"
    assert found[-4:] == ["--deploy-mode", "client", "--master", "k8s://x"]
    assert "spark.driver.bindAddress=10.0.0.1" in found
    assert entrypoint(["sleep", "5"], image) == ["sleep", "5"]


def test_an_executor_gets_its_java_options_in_order() -> None:
    image = {"SPARK_HOME": "/spark", "JAVA": "java", "SPARK_EXECUTOR_MEMORY": "1g"}
    image |= {"SPARK_JAVA_OPT_10": "-Dk=10", "SPARK_JAVA_OPT_2": "-Dk=2"}
    names = ("DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID", "EXECUTOR_POD_IP", "RESOURCE_PROFILE_ID")
    image |= {f"SPARK_{name}": name for name in (*names, "EXECUTOR_POD_NAME")}
    found = entrypoint(["executor"], image)
    assert found[:5] == ["java", "-Dk=2", "-Dk=10", "-Xms1g", "-Xmx1g"]
    assert found[-1] == "EXECUTOR_POD_NAME"
