"""Read the section `[streams]` of Airflow's configuration, which is for a whole deployment of Airflow."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import SpecError

WATCH_SECONDS = 60.0
DELIVERY_SECONDS = 30.0
"""The defaults; get_provider_info.py describes the options to people."""


def watch_seconds() -> float:
    """Return the seconds between two looks of the watch, where no stream says otherwise.

    :raises SpecError: the option is less than 5, or no number.
    """
    return _seconds("watch_seconds", WATCH_SECONDS, 5, 86400)


def delivery_seconds() -> float:
    """Return the seconds in which a recipient must have taken an alert; a look of the watch ends after 300.

    :raises SpecError: the option is not from 1 to 120, or no number.
    """
    return _seconds("delivery_seconds", DELIVERY_SECONDS, 1, 120)


def _seconds(option: str, default: float, least: float, most: float) -> float:
    # Imported here: a DAG file that is parsed for one DAG needs none of it.
    from airflow.sdk.configuration import conf

    said = conf.get("streams", option, fallback=None) or default
    try:
        found = float(said)
    except ValueError:
        found = -1.0
    if least <= found <= most:
        return found
    raise SpecError(
        f"{option} in the section [streams] of Airflow's configuration is {said!r}, and is to be from {least:.0f} to "
        f"{most:.0f} seconds.",
        next_step="Correct it in airflow.cfg, or remove it for the default.",
        option=option,
    )
