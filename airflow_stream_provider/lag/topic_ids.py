"""Remember the ids of the topics that queries read, to notice one that was deleted and made anew.

Kafka gives each topic an id of its own. Once the new log has passed the old offset, nothing else shows that records
were skipped. The memory belongs to Spark's id of the query, which a checkpoint keeps: it survives drivers, and a query
with a new checkpoint begins anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_stream_provider.lifecycle.errors import Damaged
from airflow_stream_provider.lifecycle.record import MAX_BYTES
from airflow_stream_provider.lifecycle.stored import parse_object

if TYPE_CHECKING:
    from airflow_stream_provider.control.store import Store
    from airflow_stream_provider.lag.report import LagReport

log = logging.getLogger(__name__)

# If they fit into MAX_BYTES; those that were noted first are forgotten first.
REMEMBERED_QUERIES = 200

# By Spark's id of the query: id by topic.
TopicIds = Mapping[str, Mapping[str, str]]


def read(store: Store) -> TopicIds:
    """Return what is remembered; nothing where nothing was noted yet, or where the file is damaged.

    :raises ControlUnavailable: the control folder cannot be read now.
    """
    try:
        data = store.topic_ids()
        queries = parse_object(data)["queries"] if data is not None else {}
        return {
            str(query): {str(topic): str(each) for topic, each in topics.items()} for query, topics in queries.items()
        }
    except (Damaged, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("The ids of the topics are damaged; beginning without them: %s", error)
        return {}


def note(store: Store, report: LagReport, accepted: TopicIds | None = None) -> None:
    """Remember the topics that a report names for the first time; those of before keep their ids.

    :param accepted: ids that count instead of those of before; see `Committed`.
    :raises ControlUnavailable: it cannot be written now.
    """
    before = read(store)
    seen = {query.id: query.topic_ids for query in report.queries if query.id}
    new = accepted or {}
    now = {**before, **{query: {**ids, **before.get(query, {}), **new.get(query, {})} for query, ids in seen.items()}}
    if now != before:
        kept = list(now.items())[-REMEMBERED_QUERIES:]
        while len(data := json.dumps({"queries": dict(kept)}).encode()) > MAX_BYTES:
            kept = kept[len(kept) // 2 + 1 :]
        store.put_topic_ids(data)


def recreated(noted: Mapping[str, str], found: Mapping[str, str]) -> tuple[str, ...]:
    """Return the topics whose id is another one than was noted; a topic without both ids is none of them."""
    return tuple(topic for topic, each in sorted(found.items()) if noted.get(topic, each) != each)
