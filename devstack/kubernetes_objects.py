"""The objects of the stand-in for Kubernetes (`devstack/kubernetes.py`): kept in memory, watched, deleted by its rules.

What of an API server's behaviour is copied here was read in its documentation and source, and never compared with one.
"""

from __future__ import annotations

import asyncio
import copy
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

KINDS = {
    "pods": "Pod",
    "nodes": "Node",
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "resourcequotas": "ResourceQuota",
}
Key = tuple[str, str, str]
"""Plural of the kind, namespace (empty: none), name."""
Object = dict[str, Any]
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_QUALIFIED = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_TERM = re.compile(r"\s*(!?)\s*([\w./-]+)\s*(?:(==?|!=)\s*([\w./-]*)|(in|notin)\s*\(([^)]*)\))?\s*")


class Failure(Exception):
    """An answer that is an error, with the words of an API server."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        self.body = {
            **{"kind": "Status", "apiVersion": "v1", "status": "Failure"},
            **{"reason": reason, "message": message, "code": code},
        }
        self.code = code
        super().__init__(message)


@dataclass
class Watcher:
    """Somebody who is told of changes."""

    kind: str
    namespace: str
    query: Mapping[str, str]
    events: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)


class Objects:
    """All objects. `noticed` is called with each pod that was created or whose deletion was asked for."""

    def __init__(self) -> None:
        self._all: dict[Key, Object] = {}
        self._version = 100
        self.watchers: list[Watcher] = []
        self.noticed: Callable[[Key], None] = lambda key: None

    @property
    def version(self) -> str:
        return str(self._version)

    def get(self, key: Key) -> Object:
        """Return an object itself, not a copy.

        :raises Failure: there is none.
        """
        if key not in self._all:
            raise Failure(404, "NotFound", f'{key[0]} "{key[2]}" not found')
        return self._all[key]

    def has(self, key: Key, uid: str = "") -> bool:
        return key in self._all and (not uid or self._all[key]["metadata"]["uid"] == uid)

    def of(self, kind: str, namespace: str = "", query: Mapping[str, str] = {}) -> Iterator[tuple[Key, Object]]:
        for key, found in list(self._all.items()):
            if key[0] == kind and namespace in ("", key[1]) and matches(found, query):
                yield key, found

    def create(self, kind: str, namespace: str, given: Object, *, dry_run: bool = False) -> Object:
        made = copy.deepcopy(given)
        metadata = made.setdefault("metadata", {})
        metadata.setdefault("name", f"{metadata.get('generateName', '')}{uuid.uuid4().hex[:5]}")
        key = (kind, namespace, metadata["name"])
        _validate(kind, made)
        if key in self._all:
            raise Failure(409, "AlreadyExists", f'{kind} "{metadata["name"]}" already exists')
        made = {"kind": KINDS[kind], "apiVersion": "v1", **made}
        metadata.update(
            uid=str(uuid.uuid4()), creationTimestamp=now(), **({"namespace": namespace} if namespace else {})
        )
        if kind == "pods":
            made["spec"].pop("nodeName", None)
            made["spec"].setdefault("terminationGracePeriodSeconds", 30)
            made["status"] = {"phase": "Pending", "conditions": []}
        if not dry_run:
            self._all[key] = made
            self.changed(key, "ADDED")
            if kind == "pods":
                self.noticed(key)
        return made

    def changed(self, key: Key, what: str = "MODIFIED") -> None:
        """Give an object a new version, and tell those who watch it."""
        self._version += 1
        found = self._all[key]
        found["metadata"]["resourceVersion"] = self.version
        self._tell(key, found, what)

    def delete(self, key: Key, grace: int | None = None) -> Object:
        """Ask for the end of an object: it goes once nobody needs it any more.

        :param grace: seconds; None: those of the pod. 0: its node is not waited for.
        """
        found = self.get(key)
        metadata = found["metadata"]
        if key[0] != "pods" or not found["spec"].get("nodeName"):
            grace = 0
        if grace is None:
            grace = int(found["spec"]["terminationGracePeriodSeconds"])
        before = metadata.get("deletionGracePeriodSeconds")
        if before is None or grace < before:
            metadata.setdefault("deletionTimestamp", now())
            metadata["deletionGracePeriodSeconds"] = grace
            self.changed(key)
        self.remove_if_over(key)
        if key[0] == "pods":
            self.noticed(key)
        return found

    def remove_if_over(self, key: Key) -> None:
        """Remove an object that is to go, if no finalizer keeps it; then also those that it owns."""
        found = self._all.get(key)
        metadata = found["metadata"] if found else {}
        if found is None or metadata.get("deletionGracePeriodSeconds") != 0 or metadata.get("finalizers"):
            return
        self._version += 1
        del self._all[key]
        self._tell(key, found, "DELETED")
        for other, owned in list(self._all.items()):
            if any(each["uid"] == metadata["uid"] for each in owned["metadata"].get("ownerReferences") or ()):
                self.delete(other)

    def patch(self, key: Key, change: Any, *, status: bool = False) -> Object:
        """Apply a JSON patch (a list), or a merge patch. A strategic one, too, replaces lists here."""
        found = self.get(key)
        made = copy.deepcopy(found)
        if isinstance(change, list):
            for step in change:
                _apply(made, step)
        else:
            _merge(made, {"status": change.get("status", {})} if status else change)
        found.clear()
        found.update(made)
        self.changed(key)
        self.remove_if_over(key)
        return found

    def _tell(self, key: Key, found: Object, what: str) -> None:
        for each in self.watchers:
            if each.kind == key[0] and each.namespace in ("", key[1]) and matches(found, each.query):
                each.events.put_nowait({"type": what, "object": copy.deepcopy(found)})


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def matches(found: Object, query: Mapping[str, str]) -> bool:
    """Return whether an object fits the selectors of a query.

    :raises Failure: one of them cannot be read.
    """
    labels = found["metadata"].get("labels") or {}
    for field_term in filter(None, query.get("fieldSelector", "").split(",")):
        path, _, value = field_term.replace("==", "=").partition("=")
        at: Any = found
        for name in path.split("."):
            at = (at or {}).get(name)
        if str(at or "") != value:
            return False
    return all(_fits(labels, term) for term in re.split(r",(?![^(]*\))", query.get("labelSelector", "")) if term)


def _fits(labels: Mapping[str, str], term: str) -> bool:
    parts = _TERM.fullmatch(term)
    values = [] if parts is None else [each.strip() for each in (parts[4] or parts[6] or "").split(",")]
    if parts is None or any(not _LABEL.fullmatch(value) for value in values) or (parts[5] and values == [""]):
        raise Failure(400, "BadRequest", f"unable to parse requirement: {term!r}")
    negated, name, sign, one_of = parts[1], parts[2], parts[3], parts[5]
    if negated:
        return name not in labels
    if sign == "!=" or one_of == "notin":
        return labels.get(name) not in values
    if sign or one_of:
        return labels.get(name) in values
    return name in labels


def _validate(kind: str, made: Object) -> None:
    metadata, problems = made["metadata"], []
    if not _NAME.fullmatch(metadata["name"]):
        problems.append(f'metadata.name: Invalid value: "{metadata["name"]}"')
    for name, value in (metadata.get("labels") or {}).items():
        if not _LABEL.fullmatch(str(value)):
            problems.append(f'metadata.labels: Invalid value: "{value}" of {name}')
    for finalizer in metadata.get("finalizers") or ():
        if not _QUALIFIED.fullmatch(finalizer):
            problems.append(f'metadata.finalizers: Invalid value: "{finalizer}"')
    if kind == "pods":
        containers = made.get("spec", {}).get("containers") or ()
        if not containers or not all(each.get("name") and each.get("image") for each in containers):
            problems.append("spec.containers: Required value")
        if any(not isinstance(word, str) for each in containers for word in each.get("args") or ()):
            problems.append("spec.containers[0].args: Invalid value")
    if problems:
        text = f'{KINDS[kind]} "{metadata["name"]}" is invalid: {", ".join(problems)}'
        raise Failure(422, "Invalid", text)


def _merge(into: Object, change: Mapping[str, Any]) -> None:
    for name, value in change.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, Mapping):
            into[name] = into.get(name) if isinstance(into.get(name), dict) else {}
            _merge(into[name], value)
        else:
            into[name] = value


def _apply(made: Object, step: Mapping[str, Any]) -> None:
    *way, last = (part.replace("~1", "/").replace("~0", "~") for part in step["path"].lstrip("/").split("/"))
    at: Any = made
    try:
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at[part]
        place: Any = int(last) if isinstance(at, list) and last != "-" else last
        if step["op"] == "test":
            if at[place] != step["value"]:
                raise KeyError(last)
        elif step["op"] == "remove":
            del at[place]
        elif isinstance(at, list) and step["op"] == "add":
            at.insert(len(at) if last == "-" else place, step["value"])
        else:
            at[place] = step["value"]
    except (KeyError, IndexError, ValueError):
        raise Failure(422, "Invalid", f"the server rejected our request: {step}") from None
