import hashlib
import re
from pathlib import Path

import pytest

from devstack.errors import StackError
from devstack.jars import JarSet, artifact_id, fetch, pinned, verify


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
