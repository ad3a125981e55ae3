"""A folder of streams as drivers leave them, and looks of the watch at it; what people are told is noted."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from airflow_stream_provider.control import make_root
from airflow_stream_provider.control.files_root import FilesRoot, SampleFile
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.vitals import Vitals
from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.monitoring.causes import FolderMemory
from airflow_stream_provider.monitoring.folder_look import FolderLook, Found
from airflow_stream_provider.monitoring.recipients import takes_alerts
from airflow_stream_provider.monitoring.samples import LagSample, last
from airflow_stream_provider.spec.folder import StreamFile
from airflow_stream_provider.spec.stream import StreamSpec
from devstack.control_folder import folder_of
from devstack.many_streams import StoredStream
from tests.support.story import released, requested, retired, wanted, write

# What the recipients got, by their names.
RECEIVED: dict[str, list[Alert]] = {}
# Recipients that hang wait for it.
OVER = threading.Event()

HERE = __name__
# The DAG that looks.
WATCH = "streams__watch"
# That the streams read, each many of them.
TOPICS = 10


def stop(stream: StoredStream) -> None:
    """Have a person stop it, and its drivers end."""
    asked = requested("stop", None, expires=9e9, wish="rest")
    left = (retired(each.id) for each in stream.log.refresh().deployments.values() if not each.ended)
    write(stream.log, wanted("rest", "stop"), asked, released(stream.holder, "stop", None), *left)


@takes_alerts
def receive(alert: Alert, name: str = "") -> None:
    RECEIVED.setdefault(name, []).append(alert)


@takes_alerts
def hang(alert: Alert) -> None:
    OVER.wait(600)


def look_at(*specs: StreamSpec) -> Found:
    """Look once at these streams, as a watch does that has only looked at them."""
    files = [StreamFile(spec.source, spec) for spec in specs]
    return FolderLook(WATCH, files, (), None, {}, lambda memory: None, everything=True).go()


class Folder:
    """Streams `s0000` and so on, whose drivers beat before each look unless they are `dead`.

    :param kafka: Airflow connection of their Kafka; empty: they name none.
    """

    def __init__(self, root: Path, count: int, servers: str = "127.0.0.1:1", kafka: str = "kafka_here") -> None:
        make_root((root / "control").as_uri())
        self.streams = [
            StoredStream(root, f"s{number:04d}", servers, upgrades=1, topic=f"t{number % TOPICS}")
            for number in range(count)
        ]
        for stream in self.streams:
            stream.make(batches=3)
        self.kafka = kafka
        self.notify: list[dict[str, Any]] = [{"call": f"{HERE}.receive"}]
        self.dead: set[str] = set()
        # Those that are not looked at but once, as their schedule does not come round.
        self.seldom: set[str] = set()
        # Why YAML files cannot be used, and the streams whose files are gone.
        self.problems: dict[str, str] = {}
        self.without: set[str] = set()
        # What the YAML of a stream says besides, by its name.
        self.more: dict[str, dict[str, Any]] = {}
        self.roots = [self.streams[0].control] if self.streams else []
        # What no control root could keep.
        self.saved: Any = None
        self.unread = ""
        # Of each driver.
        self.vitals: Vitals | None = None
        self.looks = 0
        self.began = time.time()
        RECEIVED.clear()

    def spec(self, stream: StoredStream, **more: Any) -> StreamSpec:
        schedule = 3e8 if stream.name in self.seldom else 5
        fields = {**yaml.safe_load(stream.yaml("spark_here", self.kafka)), "notify": self.notify}
        found = StreamSpec.model_validate(
            {**fields, "kafka": self.kafka or None, "watch": {"schedule": schedule}, **more}
        )
        found._source = Path(f"{stream.name}.yaml")
        return found

    def files(self) -> list[StreamFile]:
        found = []
        for stream in self.streams:
            path, problem = Path(f"{stream.name}.yaml"), self.problems.get(stream.name)
            if problem:
                found.append(StreamFile(path, error=SpecError(problem)))
            elif stream.name not in self.without:
                found.append(StreamFile(path, self.spec(stream, **self.more.get(stream.name, {}))))
        return found

    def beat(self, at: float) -> None:
        for stream in self.streams:
            if stream.name not in self.dead:
                data = replace(stream.heartbeat(1, self.looks + 2, at), vitals=self.vitals).to_json()
                beats = stream.folder / "control" / stream.name / "heartbeats"
                if beats.is_dir():
                    (beats / f"{stream.holder}.json").write_bytes(data)

    def look(self, after: float) -> Found:
        """Look once; `after`: seconds since the beginning, by the clock that the looks believe in."""
        self.looks += 1
        # Whatever the test takes, a look is so many seconds after the first.
        self.beat(self.began + after)
        look = self.last_look = FolderLook(
            WATCH,
            () if self.unread else self.files(),
            self.roots,
            self.saved,
            {},
            self.save,
            unread=self.unread,
            everything=not self.seldom,
            clock=lambda: self.began + after,
        )
        try:
            return look.go()
        finally:
            look.watching.keep()

    def save(self, memory: Any) -> None:
        self.saved = memory

    @property
    def root(self) -> FilesRoot:
        return FilesRoot(self.streams[0].control)

    @property
    def memory(self) -> FolderMemory:
        """What the last look has left."""
        return FolderMemory.read(self.root.noted()[f".{WATCH}"])

    def sample(self, number: int) -> LagSample:
        found = last(SampleFile(folder_of(self.streams[number].log)))
        assert found is not None
        return found

    def told(self, name: str = "") -> list[tuple[str, str, bool]]:
        """What a recipient got: about what, which kind, and whether it opened."""
        return [(each.stream, each.kind, each.open) for each in RECEIVED.get(name, [])]


def home(folder: Folder, number: int) -> Path:
    """Where a stream of it has its log."""
    stream = folder.streams[number]
    return stream.folder / "control" / stream.name
