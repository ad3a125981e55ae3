"""Read the section `[streams]` of Airflow's configuration, which is for a whole deployment of Airflow.

A wrong option is an error in the log, and its default counts: no watch stands still because of it.
"""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)

WATCH_SECONDS = 60.0
DELIVERY_SECONDS = 30.0
"""The defaults; get_provider_info.py describes the options to people."""


def watch_seconds() -> float:
    """Return the seconds between two looks of the watch, where no stream says otherwise: from 5 to a day."""
    return _seconds("watch_seconds", WATCH_SECONDS, 5, 86400)


def delivery_seconds() -> float:
    """Return the seconds in which a recipient must have taken an alert: from 1 to 120; a look ends after 300."""
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
    log.error(
        "%s in the section [streams] of Airflow's configuration is %r, and is to be from %.0f to %.0f seconds. Correct "
        "it in airflow.cfg, or remove it. Its default, %.0f s, counts until then.",
        *(option, said, least, most, default),
    )
    return default
