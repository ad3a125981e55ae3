"""What a script gives to `exactly_once`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from airflow_stream_provider.sinks import exactly_once, postgres


@pytest.mark.parametrize(("key", "columns"), [("id", ("id",)), (["id", "part"], ("id", "part")), ("", ()), ((), ())])
def test_a_key_is_a_column_or_several(key: str | Sequence[str], columns: Sequence[str]) -> None:
    assert exactly_once(postgres("orders_db"), "orders", key)._target.key == columns
