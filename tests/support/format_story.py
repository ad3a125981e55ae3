"""The control log whose records are recorded: every kind, with and without each optional field, all of them legal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP, file_hashes, release_hash
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.kafka_source import KafkaSource
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.runtime.ports import QueryEnd
from airflow_stream_provider.runtime.spark_progress import again_of, summary_of
from airflow_stream_provider.runtime.surroundings import described

BEGAN = 1795380000.0
CHECKPOINT = "hdfs://namenode.example/checkpoints/orders/out"
# Drivers, in the order in which they come up.
FOLLOWER, UPGRADE, AGAIN, RESTARTED, LAST, NEXT = (
    "orders-1-0-1a2b3c4d.4a5eb66a",
    "orders-2-0-5e6f7a8b.8970c12a",
    "orders-1-0-90ab12cd.11223344",
    "orders-3-0-77cd88ef.4f5a6b7c",
    "orders-3-0-99ab00cd.8d9eafb0",
    "orders-4-0-0f1e2d3c.5a6b7c8d",
)
FILES = {LAUNCHER: b"launcher", RUNTIME_ZIP: b"zip", "orders.py": b"script", "helpers.py": b"helpers"}
BATCH: Mapping[str, Any] = {"batchId": 6, "durationMs": {"triggerExecution": 1500}, "numInputRows": 7}


def release(version: str, **more: Any) -> Release:
    """A release of `FILES`, with every field."""
    made = Release(
        version,
        application="orders.py",
        arguments=("kafka.example:9092", "orders"),
        py_files=("helpers.py",),
        conf={"spark.cores.max": "2"},
        environment={"TZ": "UTC"},
        **more,
    )
    return Release.from_json({**made.to_json(), "hash": release_hash(made.settings(), file_hashes(FILES))})


# A query in a `standby` record. Its names are literals in `runtime.describe`, as those of a rehearsal are in
# `runtime.rehearsal`, but for what is made here by the code that drivers run; a test looks for them there.
QUERY = {
    "name": "out",
    "checkpoint": CHECKPOINT,
    "sink": "kafka",
    "target": "orders-out",
    "sources": ["kafka:subscribe=orders-in"],
    "file_sink": False,
    "read_committed": False,
    "kafka_sources": [KafkaSource("subscribe", "orders-in", ("k:9092",), False, "a-cluster", {"in": "q0"}).to_json()],
    "source_options": [{"failOnDataLoss": "true"}],
    "trigger": {"processingTime": "1 second"},
    "sink_options": {"kafka.acks": "all"},
    "fingerprint": ["Aggregate(sum)"],
    "conf": {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.stateStore.providerClass": None},
    "late": False,
}
WARMED = {
    "plan_seconds": 0.5,
    "on": "a clone of the state",
    **summary_of([BATCH, BATCH]),
    "rows_exact": True,
    "again": again_of(BATCH),
}
REHEARSED = {
    "seconds": 4.25,
    "notes": ["What out writes in offsets/ was not seen."],
    "queries": {"out": WARMED},
    "one_way": ["The query out writes commits/ in format v2."],
}
IN_PART = {"seconds": 180.5, "notes": [], "queries": {"out": {"doubt": "It took longer than 180 s."}}}


def _ends(batch: int, *, completed: bool = True) -> dict[str, Any]:
    """Where two queries ended: the first has committed, the second never has."""
    out = QueryEnd(completed=completed, batch=batch, checkpoint=CHECKPOINT, id="b66422f9")
    return described({"out": out, "totals": QueryEnd(completed=True, batch=None, checkpoint=f"{CHECKPOINT}-totals")})


REWIND = WantedRewind(BEGAN - 3600.0, {"out": {"orders-in": {0: 5, 1: 7}}}).to_json()
WHOLE = Policy(
    changed_checkpoints=(f"{CHECKPOINT}: source",), offsets_group="orders", no_way_back=True, foreach_batch_safe=True
)


class _Log:
    """Makes the records, with nonces and times by their numbers."""

    def __init__(self) -> None:
        self.made: list[Record] = []

    def __call__(self, kind: str, by: str = "airflow:orders__upgrade/manual__1/task", /, **fields: Any) -> None:
        number = len(self.made) + 1
        self.made.append(Record(kind, fields, by, BEGAN + 1.25 * number, f"{number:032x}"))

    def driver(self, kind: str, name: str, /, **fields: Any) -> None:
        self(kind, f"driver:{name}", incarnation=name, **fields)

    def up(self, name: str, rehearsal: Any, /, **declared: Any) -> None:
        """A deployment up to its standby."""
        deployment = deployment_of(name)
        self("declared", deployment=deployment, **{"reason": "deployed by ann", **declared})
        self("submitted", deployment=deployment, submission=f"driver-{deployment}", cluster="spark_default")
        self.driver("standby", name, deployment=deployment, queries=[QUERY], rehearsal=rehearsal)

    def hold(self, request: str, wish: str, name: str, epoch: int, releaser: str = "", /, **more: Any) -> None:
        """A request up to its end."""
        expires = BEGAN + 1000.0
        self("requested", request=request, to=name, expires=expires, reason="deployed", wish=wish, **more)
        self.driver("ready", name, request=request)
        if releaser:
            whole = {"request": request, "to": name, "boundary": "completed", "ends": _ends(7), "committed": True}
            self.driver("released", releaser, **whole)
        self.driver("acquired", name, request=request, epoch=epoch)


def records() -> list[Record]:
    """Return the records, from the first one on: a job is adopted, and an open hand-over stands at the end."""
    log = _Log()
    one = {"release": release("1.0").to_json(), "policy": Policy(adopts=True).to_json()}
    two = {"release": release("2.0", storage="s3a://bucket/streams").to_json(), "policy": WHOLE.to_json()}
    three = {"release": release("3.0").to_json(), "policy": Policy().to_json()}
    four = {"release": release("4.0").to_json(), "policy": Policy().to_json()}
    job = {"adopts": True, "job": "driver-20261122-0001", "confirmed_by": "ann"}
    log("wanted", wish="adopt", goal="hold", reason="follow the job", **job, **one)
    log.up(FOLLOWER, REHEARSED, family="adopt", **one)
    ending = {"deployment": deployment_of(FOLLOWER), "job": job["job"], "expires": BEGAN + 60.0, "reason": "follow"}
    log("ending", **ending)
    log.hold("r-adopt", "adopt", FOLLOWER, 1, evidence={"job": job["job"], "state": "killed"})
    about = {"approval": True, "max_seconds": 120.0, "rewind": REWIND, "redeployed": True}
    log("wanted", wish="upgrade", goal="stand_by", reason="2.0", **about, **two)
    log.up(UPGRADE, IN_PART, family="upgrade", rewind=REWIND, **two)
    log("wanted", wish="take", goal="hold", reason="approved", family="upgrade", approved="ann")
    log.hold("r-take", "take", UPGRADE, 2, FOLLOWER)
    log("wanted", wish="back", goal="hold", reason="too slow", family="adopt", back=True)
    asked = {"to": FOLLOWER, "expires": BEGAN + 1000.0, "reason": "too slow", "wish": "back"}
    log("requested", request="r-back", **asked)
    log.driver("aborted", UPGRADE, request="r-back", reason="The batch boundary was missed.")
    log("requested", request="r-back-2", **asked)
    log("aborted", request="r-back-2", reason="It is fenced instead.")
    log("fencing", incarnation=UPGRADE, reason="too slow")
    dead = {"driver": "killed", "executors": "gone"}
    log("fenced", incarnation=UPGRADE, reason="too slow", evidence=dead, committed=False)
    log("failed", deployment=deployment_of(UPGRADE), reason="Its driver never came up.", error="exit 1")
    log.up(AGAIN, REHEARSED, family="adopt", again=deployment_of(FOLLOWER), **one)
    log.hold("r-back-3", "back", FOLLOWER, 3)
    cut = {"request": None, "to": None, "boundary": "interrupted", "ends": _ends(9, completed=False)}
    log.driver("released", FOLLOWER, **cut, committed=True)
    log("fenced", "person:ann@host/1/fence", incarnation=FOLLOWER, reason="the rack is off", evidence={"person": "ann"})
    log("retired", deployment=deployment_of(FOLLOWER), reason="its driver is gone")
    log.hold("r-again", "back", AGAIN, 4)
    broken = {"reason": "The query out failed and no restart cures it", "error": "StreamingQueryException: gone"}
    broken |= {"deployment": deployment_of(AGAIN), "boundary": "completed"}
    log.driver("failed", AGAIN, **broken, ends=_ends(9), committed=False)
    log("wanted", wish="restart", goal="hold", reason="restart", alone=True, **three)
    log.up(RESTARTED, REHEARSED, family="restart", **three)
    log.hold("r-restart", "restart", RESTARTED, 5)
    log("wanted", wish="stop", goal="stop", reason="for now")
    log("requested", request="r-stop", to=None, expires=BEGAN + 1000.0, reason="for now", wish="stop")
    log.driver("released", RESTARTED, request="r-stop", to=None, boundary="completed", ends=_ends(11), committed=True)
    log("wanted", wish="leave", goal="leave", reason="for good")
    log("wanted", wish="start", goal="hold", reason="start", family="restart")
    log.up(LAST, REHEARSED, family="restart", again=deployment_of(RESTARTED), **three)
    log.hold("r-start", "start", LAST, 6)
    log.driver("finished", LAST, ends=_ends(15), committed=True)
    log.hold("r-once-more", "start", RESTARTED, 7)
    log("wanted", wish="next", goal="stand_by", reason="4.0", **four)
    log.up(NEXT, REHEARSED, family="next", **four)
    log("wanted", wish="last", goal="hold", reason="judged", family="next", approved="judge")
    log("requested", request="r-last", to=NEXT, expires=BEGAN + 1000.0, reason="judged", wish="last")
    log.driver("ready", NEXT, request="r-last")
    return log.made
