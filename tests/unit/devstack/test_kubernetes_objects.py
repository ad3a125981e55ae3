"""The rules that the stand-in for Kubernetes keeps: as we have read them, so that a change of our reading is seen."""

from __future__ import annotations

from typing import Any

import pytest

from devstack.kubernetes_objects import Failure, Objects, matches

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
KEY = ("pods", "streams", "a")


def pod(**metadata: Any) -> dict[str, Any]:
    return {**POD, "metadata": {"name": "a", **metadata}}


def on_a_node(objects: Objects) -> None:
    objects.get(KEY)["spec"]["nodeName"] = "n"


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ("", True),
        ("a=1", True),
        ("a==1,b/c=x-y", True),
        ("a!=1", False),
        ("z!=1", True),
        ("a in (2, 1),b/c", True),
        ("a notin (2,3)", True),
        ("b/c in (x)", False),
        ("!a", False),
        ("!z", True),
    ],
)
def test_label_selectors(selector: str, fits: bool) -> None:
    assert matches({"metadata": {"labels": {"a": "1", "b/c": "x-y"}}}, {"labelSelector": selector}) is fits


@pytest.mark.parametrize("selector", ["a in ()", "a ~ b", "a=b c"])
def test_a_selector_that_nobody_can_read_is_refused(selector: str) -> None:
    with pytest.raises(Failure, match="unable to parse"):
        matches({"metadata": {"labels": {}}}, {"labelSelector": selector})


def test_a_name_is_taken_until_its_object_is_gone_and_a_dry_run_takes_none() -> None:
    objects = Objects()
    objects.create("pods", "streams", POD, dry_run=True)
    objects.create("pods", "streams", POD)
    for dry_run in (True, False):
        with pytest.raises(Failure) as refused:
            objects.create("pods", "streams", POD, dry_run=dry_run)
        assert (refused.value.code, refused.value.body["reason"]) == (409, "AlreadyExists")
    objects.delete(KEY)
    objects.create("pods", "streams", POD)


def test_a_finalizer_keeps_a_pod_and_what_it_owns() -> None:
    objects = Objects()
    made = objects.create("pods", "streams", pod(finalizers=["a/b"]))
    owner = {"kind": "Pod", "name": "a", "uid": made["metadata"]["uid"]}
    objects.create("configmaps", "streams", {"metadata": {"name": "owned", "ownerReferences": [owner]}})
    objects.delete(KEY, 0)
    assert objects.get(KEY)["metadata"]["deletionTimestamp"]
    with pytest.raises(Failure):
        objects.patch(KEY, [{"op": "test", "path": "/metadata/finalizers/0", "value": "x/y"}])
    assert objects.has(("configmaps", "streams", "owned"))
    objects.patch(KEY, [{"op": "remove", "path": "/metadata/finalizers/0"}])
    assert not objects.has(KEY)
    assert not objects.has(("configmaps", "streams", "owned"))


def test_a_pod_on_a_node_stays_for_its_grace_which_may_only_be_shortened() -> None:
    objects = Objects()
    objects.create("pods", "streams", POD)
    on_a_node(objects)
    objects.delete(KEY)
    assert objects.get(KEY)["metadata"]["deletionGracePeriodSeconds"] == 30
    objects.delete(KEY, 10)
    objects.delete(KEY, 60)
    assert objects.get(KEY)["metadata"]["deletionGracePeriodSeconds"] == 10
    objects.delete(KEY, 0)
    assert not objects.has(KEY)


@pytest.mark.parametrize(
    "given",
    [
        pod(labels={"a": "-x"}),
        pod(labels={"a": "x" * 64}),
        pod(finalizers=["plain"]),
        pod(name="A"),
        {"metadata": {"name": "a"}, "spec": {"containers": []}},
    ],
)
def test_what_an_api_server_would_call_invalid(given: dict[str, Any]) -> None:
    with pytest.raises(Failure) as refused:
        Objects().create("pods", "streams", given)
    assert refused.value.code == 422
