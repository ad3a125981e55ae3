from __future__ import annotations

from pathlib import Path

import yaml

from demo.environment import DemoEnvironment, lay_out
from devstack.airflow_api import AirflowApi

DAGS = Path(__file__).parents[3] / "dags"


def test_the_copied_stream_uses_the_given_brokers_and_data_folder(tmp_path: Path) -> None:
    changes = {"upgrade": {"soak": "1s"}, "version": "9"}
    lay_out(DAGS, tmp_path / "dags", brokers="kafka:1", data=tmp_path / "data", changes=changes)
    environment = DemoEnvironment.at(tmp_path / "dags", AirflowApi("http://airflow", "admin", "x"))
    assert environment.brokers == "kafka:1"
    assert environment.checkpoints == {
        query: tmp_path / "data" / "checkpoints" / "orders" / query for query in ("enrich", "totals")
    }
    assert environment.spec.control == (tmp_path / "data" / "streams").as_uri()
    assert environment.spec.version == "9"


def test_mappings_are_merged_and_the_original_stays(tmp_path: Path) -> None:
    original = (DAGS / "streams" / "orders.yaml").read_text()
    lay_out(DAGS, tmp_path / "dags", brokers="kafka:1", data=tmp_path, changes={"upgrade": {"soak": "1s"}})
    copied = yaml.safe_load((tmp_path / "dags" / "streams" / "orders.yaml").read_text())
    assert copied["upgrade"] == {**yaml.safe_load(original).get("upgrade", {}), "soak": "1s"}
    assert (DAGS / "streams" / "orders.yaml").read_text() == original
