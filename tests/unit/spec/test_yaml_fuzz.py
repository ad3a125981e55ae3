"""Whatever a stream's file holds: a stream, or a SpecError that names the file. Anything else takes all DAGs away."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.serialization.serialized_objects import DagSerialization
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runbook.dags import stream_dags
from airflow_stream_provider.spec.folder import load_specs
from airflow_stream_provider.spec.stream import LagSpec, StreamSpec, UpgradeSpec, WatchSpec

GOOD = """\
name: orders
application: apps/orders.py
version: "2.1.0"
cluster: spark_default
kafka: kafka_default
control: file:///data/streams
arguments: [--limit, 5]
conf: {spark.cores.max: 2}
upgrade: {strategy: handover, soak: 10m, approval: true, approvers: [anna]}
lag: {max_records: 10000, max_seconds: 60}
watch: {schedule: 5m}
notify: [{call: builtins.print, arguments: {a: 1}}]
"""
PARTS = [
    *"[]{}&*!|>%@`'\":,#?-=~<\n\t \0\x85\ufeff",
    *("\n  ", "- ", ": ", "? ", "<<: ", "!!bool x", "!!int", "&a ", "*a", "---\n", "...\n", "%YAML 9.9\n", "[" * 500),
    *("2026-30-11", "9" * 5000, "0x" + "f" * 5000, "1e999", ".nan", ".inf", "-1", "0b_", "1:99:99", "=", "null"),
    *("file://[", "file:///a\\0b", '"\\ud800"', '"\\x00"', "9999999d", "\N{ARABIC-INDIC DIGIT ONE}s"),
]
EXAMPLES = [GOOD.replace(": ", f": {part} ", n) for part in PARTS for n in (1, 3)]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A good file with pieces cut out, doubled, or put in."""
    text = GOOD
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 8)))
        text = text[:start] + draw(st.sampled_from(PARTS) | st.text(max_size=5)) + text[end:]
    return text


# Every field of every part, with whatever YAML can say.
FIELDS = [*StreamSpec.model_fields, *UpgradeSpec.model_fields, *LagSpec.model_fields, *WatchSpec.model_fields, "x"]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**300, 10**310)
    | st.floats()
    | st.dates()
    | st.binary(max_size=8)
    | st.text(max_size=8)
    | st.sampled_from(["1h", "9" * 400 + "d", "file:///d", "orders", "restart", "a.b", "v1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


def outcome(data: bytes) -> StreamSpec | SpecError:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "orders.yaml"
        path.write_bytes(data)
        [found] = load_specs(folder)
        if isinstance(found, SpecError):
            assert found.fields["file"] == str(path)
    assert isinstance(found, (StreamSpec, SpecError))
    return found


@pytest.mark.parametrize("text", EXAMPLES)
def test_known_traps(text: str) -> None:
    outcome(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    outcome(data)


@settings(max_examples=100)
@given(damaged())
def test_a_damaged_file(text: str) -> None:
    outcome(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6))
def test_any_values(fields: dict[str, Any]) -> None:
    outcome(yaml.safe_dump({**yaml.safe_load(GOOD), **fields}, allow_unicode=True).encode("utf-8", "surrogatepass"))


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*UpgradeSpec.model_fields, "schedule"), VALUES)))
@example({"soak": 1e300, "keep_previous": 3650 * 86400.0, "approval_timeout": 3650 * 86400.0})
@example({"schedule": 3650 * 86400.0, "state_limit_bytes": 10**310})
def test_what_can_be_used_makes_dags(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Each field by itself; a value that passes its check must not fail where the DAGs are made or serialized."""
    for path in tmp_path.iterdir():
        path.unlink()
    whole = yaml.safe_load(GOOD)
    for number, (name, value) in enumerate(fields.items()):
        part = "watch" if name == "schedule" else "upgrade"
        one = {**whole, "name": f"s{number}", part: {**whole[part], name: value}}
        (tmp_path / f"s{number}.yaml").write_bytes(yaml.safe_dump(one).encode("utf-8", "surrogatepass"))
    # The other DAGs have none of these fields.
    for dag in (dag for name, dag in stream_dags(tmp_path).items() if name.endswith(("__upgrade", "__watch"))):
        dag.validate()
        DagSerialization.to_dict(dag)
