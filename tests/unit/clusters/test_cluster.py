from __future__ import annotations

from airflow_stream_provider.clusters import DriverState


def test_an_unknown_state_is_not_terminal() -> None:
    assert not DriverState.UNKNOWN.terminal
    assert {state for state in DriverState if state.terminal} == {
        DriverState.FINISHED,
        DriverState.FAILED,
        DriverState.KILLED,
        DriverState.LOST,
    }
    assert [state for state in DriverState if state.reserved] == [DriverState.RESERVED]
    assert all(state.description.endswith(".") for state in DriverState)
