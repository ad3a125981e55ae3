"""Read, clone and claim Spark checkpoints: in local and mounted folders without a JVM, elsewhere in a driver."""

from __future__ import annotations

from airflow_stream_provider.checkpoint.clone import (
    StateTooLarge,
    clone_logs,
    clone_range,
    clone_state,
    planned_ranges,
    rehearsal_folder,
    rehearsal_folders,
    remove_clones,
    scratch,
)
from airflow_stream_provider.checkpoint.location import (
    check_location,
    file_system_of,
    local_path,
    locate,
    normal_form,
    real_form,
    recorded_form,
)
from airflow_stream_provider.checkpoint.logs import LogEnds, SinkLog, boundary, delta_batch, read_sink_log
from airflow_stream_provider.checkpoint.owner import (
    Owner,
    check_owner,
    claim,
    owner,
    patience,
    refuse_if_being_written,
)
from airflow_stream_provider.checkpoint.read import (
    merged,
    pinned_conf,
    read,
    recent,
)
from airflow_stream_provider.checkpoint.rewind import (
    apply_rewind,
    check_rewindable,
    may_land,
    plan_rewind,
    stepped_back,
)
from airflow_stream_provider.checkpoint.visible import Seen, await_seen, list_anew
from airflow_stream_provider.checkpoint.whole import Formats, check_whole, formats, one_way

__all__ = [
    "Formats",
    "LogEnds",
    "Owner",
    "Seen",
    "SinkLog",
    "StateTooLarge",
    "apply_rewind",
    "await_seen",
    "boundary",
    "check_location",
    "check_owner",
    "check_rewindable",
    "check_whole",
    "claim",
    "clone_logs",
    "clone_range",
    "clone_state",
    "delta_batch",
    "file_system_of",
    "formats",
    "list_anew",
    "local_path",
    "locate",
    "may_land",
    "merged",
    "normal_form",
    "one_way",
    "owner",
    "patience",
    "pinned_conf",
    "plan_rewind",
    "planned_ranges",
    "read",
    "read_sink_log",
    "real_form",
    "recent",
    "recorded_form",
    "refuse_if_being_written",
    "rehearsal_folder",
    "rehearsal_folders",
    "remove_clones",
    "scratch",
    "stepped_back",
]
