"""The classes that a DAG file uses, and what each takes beyond its bases: for the reference and its test."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.get_provider_info import get_provider_info
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.release import ReleaseOperator

PACKAGE = "airflow_stream_provider"


def offered() -> dict[str, type]:
    """Return the classes that a DAG file uses, by name. The two triggers that tasks defer with are not among them."""
    info = get_provider_info()
    modules = [m for part in ("operators", "sensors") for entry in info[part] for m in entry["python-modules"]]
    modules += [f"{PACKAGE}.triggers.lag_event", *(n.rpartition(".")[0] for n in info["notifications"])]
    found = {}
    for module in map(importlib.import_module, modules):
        for name, value in vars(module).items():
            public = re.fullmatch(r"[A-Z]\w+(Operator|Sensor|Trigger|Notifier)", name)
            if public and inspect.isclass(value) and value.__module__ == module.__name__:
                found[name] = value
    return found


def parameters(made_by: object) -> list[str]:
    """Return what a class or method of this package takes, with what its bases take."""
    made = [each for each in getattr(made_by, "__mro__", [made_by]) if each.__module__.startswith(PACKAGE)]
    names = (each for one in made for each in inspect.signature(one).parameters)
    return [each for each in dict.fromkeys(names) if each not in ("context", "kwargs")]


@dataclass(frozen=True)
class Takes:
    """What a class takes beyond the base whose parameters the page says once.

    :param release: whether it takes a release.
    """

    release: bool
    names: tuple[str, ...]


def base_of(offer: type) -> type | None:
    """Return the base whose parameters the page says once; None: it has none."""
    return next((base for base in (ReleaseOperator, StreamOperator) if issubclass(offer, base)), None)


def made_by(name: str, offer: Any) -> Any:
    """Return what makes one: the class, or its method."""
    return offer.of if name == "LagEventTrigger" else offer


def own_parameters(name: str, offer: Any, maker: Any) -> tuple[Takes, list[str]]:
    """Return what a class takes beyond its base, and which of it is templated."""
    base = base_of(offer)
    shared = set(parameters(base)) if base else set()
    takes = Takes(base is ReleaseOperator, tuple(each for each in parameters(maker) if each not in shared))
    known = getattr(base, "template_fields", ())
    return takes, [each for each in getattr(offer, "template_fields", ()) or () if each not in known]


def sections() -> Iterator[tuple[str, type, Any]]:
    """The classes in the order of the provider's list."""
    for name, offer in offered().items():
        yield name, offer, made_by(name, offer)
