"""Refuses what would start a stream past the gate: Spark Connect, DStreams, and queries that the JVM runs already."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Mapping
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pyspark.util
from pyspark.sql import SparkSession

from airflow_stream_provider.lifecycle.errors import RehearsalRefused, SpecError, StreamError
from airflow_stream_provider.runtime.managed_query import ManagedQuery

CONNECT = "Spark Connect runs its queries in another process, where this driver can neither hold nor stop them"
DSTREAMS = "a DStream has no batch boundaries to be handed over at"
# By module: class, methods, why. They are patched when the script imports them, because that takes a second and 90 MB.
PATHS = {
    "pyspark.sql.connect.streaming.readwriter": ("DataStreamWriter", ("start", "toTable"), CONNECT),
    "pyspark.streaming.context": ("StreamingContext", ("start",), DSTREAMS),
}


def install(refuse: Callable[[StreamError], None]) -> None:
    """Patch pyspark before the script runs, so that what the gate does not see is refused instead of started.

    :param refuse: as of `Gate.install`.
    """
    for method in ("getOrCreate", "create"):
        _refuse_connect(method, refuse)
    for name, (cls, methods, why) in PATHS.items():
        _after_import(name, functools.partial(_refuse_methods, cls=cls, methods=methods, why=why, refuse=refuse))


def check_jvm(queries: Collection[ManagedQuery], own: Collection[str]) -> None:
    """Check that the sessions of these queries run no other stream, such as one that a library in Scala has started.

    :param own: ids of the rehearsals' queries.
    :raises RehearsalRefused: they do.
    """
    sessions = [query.writer._df.sparkSession for query in queries]
    active = [stream for session in sessions for stream in session.streams._jsqm.active()]
    known = {*own, *(query.real.id for query in queries if query.real is not None)}
    found = {stream.id().toString(): stream.name() for stream in active}
    names = sorted(name or identity for identity, name in found.items() if identity not in known)
    if names:
        raise RehearsalRefused(
            f"The streaming query {', '.join(names)} runs in this driver already, though the driver does not hold the "
            "stream: PySpark's DataStreamWriter has not started it.",
            next_step="Start every query by DataStreamWriter.start or toTable. Look at what this one has written: it "
            "ran beside the release that holds the stream.",
        )


def _refuse_connect(method: str, refuse: Callable[[StreamError], None]) -> None:
    original = getattr(SparkSession.Builder, method, None)
    if original is None:
        return

    @functools.wraps(original)
    def get_or_create(self: SparkSession.Builder) -> SparkSession:
        asked = _asked_by(self._options)
        if asked:
            _refuse(refuse, f"The script makes a Spark Connect session ({asked})", CONNECT)
        made: SparkSession = original(self)
        return made

    setattr(SparkSession.Builder, method, get_or_create)


def _asked_by(options: Mapping[str, Any]) -> str:
    """Return what makes pyspark choose Spark Connect, as `Builder.getOrCreate` of 3.5 to 4.x does; empty: nothing."""
    found = [name for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED") if name in os.environ]
    found += [name for name in ("spark.remote",) if name in options]
    mode = str(options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))).lower()
    if mode not in ("classic", "connect"):
        mode = getattr(pyspark.util, "default_api_mode", lambda: "classic")()
    return next(iter(found), "spark.api.mode" if mode == "connect" else "")


def _refuse(refuse: Callable[[StreamError], None], what: str, why: str) -> None:
    error = SpecError(
        f"{what}: {why}.",
        next_step="Use a classic SparkSession and DataStreamWriter: without remote(), SPARK_REMOTE and spark.api.mode.",
    )
    refuse(error)
    raise error


def _refuse_methods(
    module: ModuleType, cls: str, methods: Collection[str], why: str, refuse: Callable[[StreamError], None]
) -> None:
    patched = getattr(module, cls)
    for method in methods:

        def start(self: Any, *args: Any, method: str = method, **kwargs: Any) -> None:
            _refuse(refuse, f"The script calls {module.__name__}.{cls}.{method}", why)

        setattr(patched, method, start)


def _after_import(name: str, patch: Callable[[ModuleType], None]) -> None:
    if name in sys.modules:
        patch(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, patch))


class _Finder(MetaPathFinder):
    """Sees to it that one module is patched when it is imported, and then is gone."""

    def __init__(self, name: str, patch: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._patch = patch

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(name)
        if found is not None:
            found.loader = _Loader(found.loader, self._patch)
        return found


class _Loader(Loader):
    """Runs a module's code with its own loader, then patches the module."""

    def __init__(self, loader: Any, patch: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._patch = patch

    def exec_module(self, module: ModuleType) -> None:
        # As each of Python's loaders does it; that of zip files has no method for it in Python 3.9.
        InspectLoader.exec_module(self._loader, module)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._patch(module)
