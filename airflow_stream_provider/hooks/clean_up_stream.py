"""Clean up one stream: its stored files, and its remains on the cluster."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.hooks.clean_up import clean_up, clean_up_topic
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.clean_up import settled

if TYPE_CHECKING:
    from airflow_stream_provider.hooks.stream import StreamHook

logger = logging.getLogger(__name__)


def clean_up_stream(hook: StreamHook) -> None:
    """Clean up the stream, also on its cluster; a failure is logged, and tried later."""
    try:
        log, folder = hook.control_log, hook.folder
        if folder is not None:
            gone = clean_up(folder, log.refresh, hook.releases.storage_of_log)
        else:
            assert isinstance(log.store, TopicStore)
            gone = clean_up_topic(log.store, log.refresh, hook.releases.storage_of_log)
    except StreamError as error:
        logger.warning("What %s has stored cannot be cleaned up now: %s", hook.stream, error)
    else:
        logger.info("Not needed any more: %d heartbeats, releases %s.", len(gone.heartbeats), [*gone.releases])
    try:
        over = settled(hook.control_log.refresh())
        if over and hook.cluster_conn_id:
            hook.cluster.forget([hook.whose(each) for each in over])
    except StreamError as error:
        logger.warning("What the cluster keeps of %s cannot be cleaned up now: %s", hook.stream, error)
