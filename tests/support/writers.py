"""pyspark's own DataStreamWriter over a stand-in for Spark's: for tests that patch it, without a JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.support.real_run import real_run


class JvmWriter:
    """Keeps what it is told, by the method or the option; notes in `started` with what it was started."""

    def __init__(self, started: list[dict[str, Any]]) -> None:
        self.told: dict[str, Any] = {}
        self._started = started

    def option(self, key: str, value: str) -> JvmWriter:
        self.told[key] = value
        return self

    def start(self, path: str = "") -> Any:
        self._started.append({**self.told, **({"path": path} if path else {})})
        return SimpleNamespace(streamingQuery=lambda: self, id=lambda: SimpleNamespace(toString=lambda: "of-the-query"))

    def toTable(self, name: str) -> Any:
        return self.option("table", name).start()

    def resolvedCheckpointRoot(self) -> str:
        return f"file:{self.told['checkpointLocation']}"

    def __getattr__(self, method: str) -> Any:
        def say(value: Any) -> JvmWriter:
            self.told[method] = value
            return self

        return say


class Properties(dict[str, str]):
    """As java.util.Properties, as far as it is used."""

    def clone(self) -> Properties:
        return Properties(self)


class Context:
    """A SparkContext with the local properties of one thread."""

    def __init__(self) -> None:
        self.local = Properties()

    def getLocalProperties(self) -> Properties:
        return self.local

    def setLocalProperties(self, properties: Properties) -> None:
        self.local = properties


class Session:
    """A session, and a DataFrame of it; its writers note in `started` with what they were started, and the `runs`."""

    isStreaming = True

    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []
        self.runs: list[Any] = []
        self.settings: dict[str, str] = {}
        self.conf = SimpleNamespace(get=lambda key, default=None: self.settings.get(key, default))
        hadoop = SimpleNamespace(newHadoopConf=lambda: self.settings)
        self.context = Context()
        self._jsparkSession = SimpleNamespace(sessionState=lambda: hadoop, sparkContext=lambda: self.context)
        self._sc = MagicMock()
        self._sc._jvm.PythonUtils.toSeq = list
        self.sparkSession = self
        self._jdf = SimpleNamespace(writeStream=lambda: JvmWriter(self.started))


def copied_class() -> Any:
    """Return a class that is DataStreamWriter, and that a test may patch.

    `foreachBatch` notes its function in the JVM's writer; pyspark's needs a gateway. What starts is no query of Spark.
    """
    own = {name: value for name, value in vars(DataStreamWriter).items() if name not in ("__dict__", "__weakref__")}

    def foreach_batch(self: Any, func: Any) -> Any:
        self._jwrite.foreachBatch(func)
        return self

    def started(self: Any, jvm_query: Any) -> Any:
        run = real_run()
        run._jsq = jvm_query
        self._spark.runs.append(run)
        return run

    return type("DataStreamWriter", (), {**own, "foreachBatch": foreach_batch, "_sq": started})
