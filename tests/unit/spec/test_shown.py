"""What a serialized form tells the page of a stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_stream_provider.spec.shown import as_shown, read_shown
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from tests.support.there import there

YAML = """\
name: orders
application: apps/orders.py
version: "2"
cluster: spark_prod
control: kafka://brokers/streams
kafka: brokers
storage: s3a://bucket/prefix
storage_connection: aws
arguments: [--checkpoint, /data/cp]
watch: {schedule: 5m}
notify: [{call: team.tell, arguments: {room: night}}]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "streams" / "orders.yaml"
    found.parent.mkdir()
    found.write_text(YAML)
    return found


def test_it_is_what_takes_a_look_and_nothing_of_who_is_told(path: Path) -> None:
    text = as_shown(load_spec(path))
    assert "team.tell" not in text
    assert "apps/orders.py" not in text
    found = there(read_shown(text))
    assert found.spec is not None
    assert (found.name, found.problem) == ("orders", "")
    looked = {name: getattr(found.spec, name) for name in ("name", "control", "cluster", "kafka", "storage")}
    assert looked == {
        "name": "orders",
        "control": "kafka://brokers/streams",
        "cluster": "spark_prod",
        "kafka": "brokers",
        "storage": "s3a://bucket/prefix",
    }
    assert (found.spec.storage_connection, found.spec.watch.schedule) == ("aws", 300.0)


def test_what_another_version_has_written_is_a_stream_that_cannot_be_looked_at() -> None:
    found = there(read_shown(json.dumps({"stream": {"name": "orders", "control": "ftp://x"}})))
    assert found.spec is None
    assert "Another version" in found.problem


@pytest.mark.parametrize("text", ["", "x", "[" * 200_000, "[]", "null", "1", '{"stream": 1}', '{"stream": {}}'])
def test_what_is_none_of_ours_is_no_stream(text: str) -> None:
    assert read_shown(text) is None


def test_it_says_where_to_look_and_nothing_else() -> None:
    """Whoever writes a DAG writes what the API server reads here."""
    fields = {"name": "orders", "control": "file:///data", "cluster": "c", "root": "x"}
    more = {"notify": [{"call": "os.system"}], "conf": {"a": "b"}, "upgrade": {"schedule": "@weekly"}}
    found = there(read_shown(json.dumps({"stream": {**fields, **more}})))
    assert found.spec is not None
    assert found.spec.model_fields_set == {"name", "control", "cluster", "application", "version"}


def test_a_name_never_becomes_a_path() -> None:
    fields = {"name": "../../etc", "control": "file:///data", "cluster": "c"}
    assert there(read_shown(json.dumps({"stream": fields}))).spec is None
    assert StreamSpec.model_validate({**fields, "name": "etc", "application": "a.py", "version": "1"})
