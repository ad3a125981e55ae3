"""The kubelets of the stand-in for Kubernetes (`devstack/kubernetes.py`): each pod is a process of this machine.

A process is no container: it sees the machine's files and network, every pod has the address 127.0.0.1, images are not
pulled, and what a pod asks for is not kept to. Its end is that of a container: SIGTERM to the first process, and after
the grace, or when that has ended, SIGKILL to all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from devstack.kubernetes_objects import Key, Object, Objects, now
from devstack.ports import HOST
from devstack.spark_image import IMAGE, entrypoint, expanded

UNREACHABLE = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_LOOK_SECONDS = 0.05


class Kubelets:
    """Puts pods on nodes, runs them, and ends them.

    :param folder: for logs and working folders of pods.
    :param image: environment of `IMAGE`.
    """

    def __init__(self, objects: Objects, folder: Path, image: Mapping[str, str]) -> None:
        self._objects = objects
        self._folder = folder
        self._image = image
        self._silent: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        objects.noticed = self._notice
        self._cared_for: set[str] = set()
        # Of each pod that runs: its node, and its first process.
        self._leaders: set[tuple[str, int]] = set()

    def add_node(self, name: str) -> None:
        """Add a node whose kubelet answers."""
        self._silent.discard(name)
        node = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {}}
        self._objects.create("nodes", "", node)
        self._set_ready(name, "True")

    def fall_silent(self, name: str) -> None:
        """Let a node's kubelet do and say nothing, as if the node were cut off; its processes go on.

        What Kubernetes finds out after 40 s, it finds out at once here. Deleting the pods, which it does after another
        five minutes, is left to the test.
        """
        self._silent.add(name)
        if self._objects.has(("nodes", "", name)):
            self._set_ready(name, "Unknown")
        self._set_pods_unready(name)

    def crash(self, name: str) -> None:
        """Let a node die, and with it all its processes: nobody is there to say so."""
        self.fall_silent(name)
        for node, leader in self._leaders:
            if node == name:
                _kill_session(leader)

    def come_back(self, name: str) -> None:
        """Let a silent kubelet answer again, and do what it was told meanwhile."""
        self._silent.discard(name)
        self._set_ready(name, "True")
        for key, pod in self._objects.of("pods"):
            if pod["spec"].get("nodeName") == name and _state(pod).get("running") is not None:
                _condition(pod, "Ready", "True")
                self._objects.changed(key)

    def node_is_gone(self, name: str) -> None:
        """Do what the pod collector does when somebody has deleted a node: its word, and not the kubelet's."""
        self._silent.add(name)
        for key, pod in list(self._objects.of("pods")):
            if pod["spec"].get("nodeName") == name:
                self._collect(key, pod)

    def node_has_changed(self, name: str) -> None:
        """Do what the pod collector does for a node that a person has tainted out-of-service."""
        node = self._objects.get(("nodes", "", name))
        if any(each["key"] == OUT_OF_SERVICE for each in node["spec"].get("taints") or ()):
            for key, pod in list(self._objects.of("pods")):
                if pod["spec"].get("nodeName") == name and pod["metadata"].get("deletionTimestamp"):
                    self._collect(key, pod)

    def _collect(self, key: Key, pod: Object) -> None:
        if pod["status"]["phase"] not in ("Succeeded", "Failed"):
            pod["status"]["phase"] = "Failed"
            _condition(pod, "DisruptionTarget", "True", "DeletionByPodGC")
            self._objects.changed(key)
        self._objects.delete(key, 0)

    def _notice(self, key: Key) -> None:
        uid = self._objects.get(key)["metadata"]["uid"] if self._objects.has(key) else ""
        if uid and uid not in self._cared_for:
            self._cared_for.add(uid)
            task = asyncio.get_running_loop().create_task(self._care_for(key, uid))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _care_for(self, key: Key, uid: str) -> None:
        """Be scheduler and kubelet of one pod, from its creation to its end."""
        pod = await self._schedule(key, uid)
        if pod is None:
            return
        node = pod["spec"]["nodeName"]
        process = await self._start(key, uid, pod)
        if process is not None:
            await self._run(key, uid, pod, process)
        await self._answers(node)
        while self._objects.has(key, uid):
            if "deletionTimestamp" in pod["metadata"]:
                if process is None:
                    self._report(key, pod, _ended(137, "ContainerStatusUnknown"))
                self._objects.delete(key, 0)
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _schedule(self, key: Key, uid: str) -> Object | None:
        """Return the pod once it has a node; None: it is to go before that."""
        while self._objects.has(key, uid):
            pod = self._objects.get(key)
            if "deletionTimestamp" in pod["metadata"]:
                return None
            wanted = pod["spec"].get("nodeSelector") or {}
            fitting = [
                name
                for (_, _, name), node in self._objects.of("nodes")
                if not node["spec"].get("taints") and wanted.items() <= node["metadata"]["labels"].items()
            ]
            if fitting:
                pod["spec"]["nodeName"] = min(fitting, key=self._load)
                _condition(pod, "PodScheduled", "True")
                self._objects.changed(key)
                return pod
            _condition(pod, "PodScheduled", "False", "Unschedulable", f"0 nodes are available for {wanted}.")
            self._objects.changed(key)
            await asyncio.sleep(0.2)
        return None

    def _load(self, node: str) -> int:
        """Return how many pods run on a node, or are to."""
        pods = (pod for _, pod in self._objects.of("pods") if pod["spec"].get("nodeName") == node)
        return sum(pod["status"]["phase"] in ("Pending", "Running") for pod in pods)

    async def _start(self, key: Key, uid: str, pod: Object) -> asyncio.subprocess.Process | None:
        container = pod["spec"]["containers"][0]
        while True:
            await self._answers(pod["spec"]["nodeName"])
            if not self._objects.has(key, uid) or "deletionTimestamp" in pod["metadata"]:
                return None
            waiting = self._hindered(key[1], container)
            if not waiting:
                break
            self._report(key, pod, {"waiting": waiting})
            await asyncio.sleep(0.5)
        environment = {**os.environ, **self._image, **self._environment(key, container)}
        command = entrypoint([expanded(word, environment) for word in container.get("args") or ()], environment)
        work = self._folder / "pods" / uid
        work.mkdir(parents=True)
        with self.log(key).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command, env=environment, cwd=work, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        pod["status"] |= {"podIP": HOST, "podIPs": [{"ip": HOST}], "hostIP": HOST, "startTime": now()}
        _condition(pod, "Ready", "True")
        self._report(key, pod, {"running": {"startedAt": now()}})
        return process

    async def _run(self, key: Key, uid: str, pod: Object, process: asyncio.subprocess.Process) -> None:
        """Wait until a pod's process has ended, by itself or because the pod is to go."""
        node, ending = pod["spec"]["nodeName"], asyncio.ensure_future(process.wait())
        loop, killed_at = asyncio.get_running_loop(), 0.0
        self._leaders.add((node, process.pid))
        while not ending.done():
            await asyncio.wait([ending], timeout=_LOOK_SECONDS)
            gone = not self._objects.has(key, uid)
            if node in self._silent or not (gone or "deletionTimestamp" in pod["metadata"]):
                continue
            if not killed_at:
                killed_at = loop.time()
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
            # A kubelet gives at least a second.
            if loop.time() > killed_at + max(1, 1 if gone else pod["metadata"]["deletionGracePeriodSeconds"]):
                _kill_session(process.pid)
        _kill_session(process.pid)
        self._leaders.discard((node, process.pid))
        await self._answers(node)
        if self._objects.has(key, uid):
            code = ending.result()
            self._report(key, pod, _ended(code if code >= 0 else 128 - code, "Error" if code else "Completed"))

    async def _answers(self, node: str) -> None:
        """Wait until a node's kubelet answers."""
        while node in self._silent:
            await asyncio.sleep(_LOOK_SECONDS)

    def _report(self, key: Key, pod: Object, state: Object) -> None:
        container = pod["spec"]["containers"][0]
        if _state(pod) == state:
            return
        over = state.get("terminated")
        if over:
            pod["status"]["phase"] = "Failed" if over["exitCode"] else "Succeeded"
            _condition(pod, "Ready", "False")
        elif "running" in state:
            pod["status"]["phase"] = "Running"
        status = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
        pod["status"]["containerStatuses"] = [{**status, "ready": "running" in state, "state": state}]
        self._objects.changed(key)

    def log(self, key: Key) -> Path:
        return self._folder / f"{key[1]}.{key[2]}.log"

    def _hindered(self, namespace: str, container: Mapping[str, Any]) -> Object:
        """Return why a container cannot be started now; empty: it can be."""
        if container["image"] != IMAGE:
            return {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{container["image"]}"'}
        for variable in container.get("env") or ():
            named = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if named and not self._objects.has(("secrets", namespace, named["name"])):
                return {"reason": "CreateContainerConfigError", "message": f'secret "{named["name"]}" not found'}
        return {}

    def _environment(self, key: Key, container: Mapping[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        fields = {"status.podIP": HOST, "metadata.name": key[2], "metadata.namespace": key[1]}
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            if "fieldRef" in source:
                value = fields.get(source["fieldRef"]["fieldPath"], "")
            elif "secretKeyRef" in source:
                named = source["secretKeyRef"]
                value = self._objects.get(("secrets", key[1], named["name"]))["stringData"][named["key"]]
            else:
                value = expanded(str(variable.get("value") or ""), found)
            found[variable["name"]] = value
        return found

    def _set_ready(self, name: str, status: str) -> None:
        key = ("nodes", "", name)
        node = self._objects.get(key)
        _condition(node, "Ready", status)
        kept = [each for each in node["spec"].get("taints") or () if each["key"] != UNREACHABLE]
        node["spec"]["taints"] = kept + ([] if status == "True" else [{"key": UNREACHABLE, "effect": "NoExecute"}])
        self._objects.changed(key)

    def _set_pods_unready(self, node: str) -> None:
        for key, pod in self._objects.of("pods"):
            if pod["spec"].get("nodeName") == node:
                _condition(pod, "Ready", "False")
                self._objects.changed(key)


def _kill_session(leader: int) -> None:
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)


def _ended(code: int, reason: str) -> Object:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": now()}}


def _state(pod: Object) -> Object:
    statuses: list[Object] = pod["status"].get("containerStatuses") or []
    return statuses[0]["state"] if statuses else {}


def _condition(thing: Object, kind: str, status: str, reason: str = "", message: str = "") -> None:
    conditions = thing.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [each for each in conditions if each["type"] != kind]
    conditions.append({"type": kind, "status": status, "reason": reason, "message": message})
