import hashlib
import re
from pathlib import Path

import pytest

from devstack.errors import StackError
from devstack.jars import JarSet, artifact_id, fetch, kafka_broker, pinned, spark_connector, verify


@pytest.mark.parametrize(
    ("jar", "expected"),
    [
        ("kafka-clients-4.1.1.jar", "kafka-clients"),
        ("spark-sql-kafka-0-10_2.13-4.0.0.jar", "spark-sql-kafka-0-10_2.13"),
        ("zstd-jni-1.5.6-10.jar", "zstd-jni"),
        ("log4j-1.2-api-2.24.3.jar", "log4j-1.2-api"),
        ("JTransforms-3.1.jar", "JTransforms"),
        ("jsr305-3.0.0.jar", "jsr305"),
        ("guava-33.4.0-jre.jar", "guava"),
        ("hive-shims-0.23-2.3.10.jar", "hive-shims-0.23"),
        ("netty-transport-native-epoll-4.1.118.Final-linux-x86_64.jar", "netty-transport-native-epoll"),
        ("unversioned.jar", "unversioned"),
    ],
)
def test_the_artifact_is_read_from_the_jar_name(jar: str, expected: str) -> None:
    assert artifact_id(jar) == expected


def spark_with(folder: Path, *jars: str) -> Path:
    (folder / "jars").mkdir(parents=True)
    for jar in jars:
        (folder / "jars" / jar).touch()
    return folder


def test_the_connector_has_the_version_and_scala_version_of_the_installed_spark(tmp_path: Path) -> None:
    old = spark_connector(spark_with(tmp_path / "old", "spark-core_2.12-3.5.7.jar"))
    new = spark_connector(spark_with(tmp_path / "new", "spark-core_2.13-4.2.0.jar"))
    assert old.coordinates == ("org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",)
    assert new.coordinates == ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",)
    here = spark_connector(spark_with(tmp_path / "here", "spark-core_2.13-4.0.0.jar"))
    assert here.coordinates[1:] == ("org.apache.kafka:kafka-clients:3.9.2",), "its own has CVE-2025-27817"


def test_jars_that_spark_ships_are_left_out(tmp_path: Path) -> None:
    jars = spark_connector(spark_with(tmp_path, "spark-core_2.13-4.0.0.jar", "lz4-java-1.8.0.jar"))
    assert "lz4-java" in jars.shipped


def test_a_folder_without_spark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="no Spark"):
        spark_connector(tmp_path)


def test_sets_that_differ_never_share_a_folder() -> None:
    one = JarSet("same", ("g:a:1",))
    others = [JarSet("same", ("g:a:2",)), JarSet("same", ("g:a:1",), shipped=frozenset({"b"}))]
    assert one.folder_name == JarSet("same", ("g:a:1",)).folder_name
    assert one.folder_name not in {other.folder_name for other in others}


def test_a_fetched_set_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_STREAM_CACHE", str(tmp_path))
    there = tmp_path / "jars" / kafka_broker().folder_name
    there.mkdir(parents=True)
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("went to the network"))
    assert fetch(kafka_broker()) == there


def test_a_jar_is_taken_only_with_the_hash_that_is_pinned_for_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pinned(), "a-1.0.jar", hashlib.sha256(b"a").hexdigest())
    verify("a-1.0.jar", b"a")
    with pytest.raises(StackError, match="is not the one in"):
        verify("a-1.0.jar", b"b")
    with pytest.raises(StackError, match="is not known in"):
        verify("b-1.0.jar", b"a")


def test_every_set_has_its_main_jars_pinned() -> None:
    names = {artifact_id(name) for name in pinned()}
    assert {"kafka_2.13", "kafka-clients", "spark-sql-kafka-0-10_2.12", "spark-sql-kafka-0-10_2.13"} <= names
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in pinned().values())


def test_a_registry_that_serves_another_jar_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own SHA-1 fits, as it would for whoever changed the jar there."""
    fields = {"modelVersion": "4.0.0", "groupId": "g", "artifactId": "a", "version": "1"}
    pom = f"<project>{''.join(f'<{name}>{value}</{name}>' for name, value in fields.items())}</project>".encode()
    monkeypatch.setenv("AIRFLOW_STREAM_CACHE", str(tmp_path))
    monkeypatch.setattr(
        "devstack.jars._get",
        lambda _, url: pom if url.endswith(".pom") else (b"planted" if url.endswith(".jar") else None),
    )
    with pytest.raises(StackError, match="is not known in"):
        fetch(JarSet("planted", ("g:a:1",)))
    assert list(tmp_path.rglob("*.jar")) == []
