"""What a person has given on the command line."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from airflow_stream_provider.cli.given import given_folder, given_stream, given_stream_as_far_as_known
from airflow_stream_provider.lifecycle.errors import SpecError


def test_the_folder_is_that_in_the_dags_folder_unless_another_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    assert given_folder(Namespace(folder=None)) == tmp_path / "streams"
    assert given_folder(Namespace(folder="elsewhere")) == Path("elsewhere")


def test_a_stream_that_is_not_there_is_answered_with_those_that_are(streams: Path) -> None:
    given = Namespace(name="payments", folder=str(streams))
    for of in (given_stream, given_stream_as_far_as_known):
        with pytest.raises(SpecError, match=r"There is no stream payments in .*; there are: orders\."):
            of(given)


def test_of_a_yaml_with_an_error_the_rest_is_known_where_that_is_enough(streams: Path) -> None:
    yaml = streams / "orders.yaml"
    yaml.write_text(yaml.read_text() + "lagg: {}\n")
    given = Namespace(name="orders", folder=str(streams))
    with pytest.raises(SpecError, match="lagg"):
        given_stream(given)
    assert given_stream_as_far_as_known(given).cluster == "c"
