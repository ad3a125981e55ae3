"""A folder of streams as drivers leave them, and looks of the watch at it; what people are told is noted."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from airflow_stream_provider.control import make_root
from airflow_stream_provider.control.files_root import SampleFile
from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.monitoring.folder_look import FolderLook, look_at_all
from airflow_stream_provider.monitoring.recipients import takes_alerts
from airflow_stream_provider.monitoring.samples import LagSample, last
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.spec.watched import Watched
from devstack.control_folder import folder_of
from devstack.many_streams import StoredStream

# What the recipients got, by their names.
RECEIVED: dict[str, list[Alert]] = {}
# Recipients that hang wait for it.
OVER = threading.Event()

HERE = __name__
# That the streams read, each many of them.
TOPICS = 10


@takes_alerts
def receive(alert: Alert, name: str = "") -> None:
    RECEIVED.setdefault(name, []).append(alert)


@takes_alerts
def hang(alert: Alert) -> None:
    OVER.wait(600)


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
        # Those that are not looked at, as their schedule has not come round.
        self.seldom: set[str] = set()
        self.problems: dict[str, str] = {}
        # Those that are looked at for the last time.
        self.last: set[str] = set()
        # What the YAML of a stream says besides, by its name.
        self.more: dict[str, dict[str, Any]] = {}
        self.memory: Mapping[str, Any] = {}
        self.looks = 0
        self.began = time.time()
        RECEIVED.clear()

    def spec(self, stream: StoredStream, **more: Any) -> StreamSpec:
        fields = {**yaml.safe_load(stream.yaml("spark_here", self.kafka)), "notify": self.notify, **more}
        return StreamSpec.model_validate({**fields, "kafka": self.kafka or None})

    def beat(self, at: float) -> None:
        for stream in self.streams:
            if stream.name not in self.dead:
                data = stream.heartbeat(1, self.looks + 2, at).to_json()
                beats = stream.folder / "control" / stream.name / "heartbeats"
                if beats.is_dir():
                    (beats / f"{stream.holder}.json").write_bytes(data)

    def look(self, after: float) -> FolderLook:
        """Look once; `after`: seconds since the beginning, by the clock that the looks believe in."""
        self.looks += 1
        # Whatever the test takes, a look is so many seconds after the first.
        self.beat(self.began + after)
        specs = [self.spec(each, **self.more.get(each.name, {})) for each in self.streams]
        watched = [
            Watched(each, self.problems.get(each.name, ""), each.name in self.last)
            for each in specs
            if each.name not in self.seldom
        ]
        others = [each for each in specs if each.name in self.seldom]
        found = look_at_all(watched, self.memory, {}, others=others, clock=lambda: self.began + after)
        self.memory = found.memory
        return found

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
