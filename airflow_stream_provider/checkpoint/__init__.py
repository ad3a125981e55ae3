"""Read, clone and claim Spark checkpoints: in local and mounted folders without a JVM, elsewhere in a driver."""

from __future__ import annotations

from airflow_stream_provider.checkpoint.clone import (
    Clone,
    StateTooLarge,
    clone_logs,
    clone_state,
    rehearsal_folder,
    rehearsal_folders,
    remove_clones,
    scratch,
)
from airflow_stream_provider.checkpoint.formats import Formats, formats, one_way
from airflow_stream_provider.checkpoint.location import (
    check_location,
    file_system_of,
    local_path,
    locate,
    normal_form,
    qualified,
    real_form,
    recorded_form,
)
from airflow_stream_provider.checkpoint.logs import LogEnds, boundary
from airflow_stream_provider.checkpoint.owner import (
    Owner,
    check_owner,
    claim,
    is_being_written,
    owner,
    patience,
    refuse_if_being_written,
)
from airflow_stream_provider.checkpoint.read import (
    Checkpoint,
    Source,
    StatefulOperator,
    merged,
    pinned_conf,
    read,
    recent,
)
from airflow_stream_provider.checkpoint.rewind import Rewind, apply_rewind, check_rewindable, may_land, plan_rewind
from airflow_stream_provider.checkpoint.sink_log import SinkLog, delta_batch, read_sink_log
from airflow_stream_provider.checkpoint.step_back import StepBack, stepped_back
from airflow_stream_provider.checkpoint.visible import Seen, await_seen, list_anew
from airflow_stream_provider.checkpoint.whole import check_whole

__all__ = [
    "Checkpoint",
    "Clone",
    "Formats",
    "LogEnds",
    "Owner",
    "Rewind",
    "Seen",
    "SinkLog",
    "Source",
    "StateTooLarge",
    "StatefulOperator",
    "StepBack",
    "apply_rewind",
    "await_seen",
    "boundary",
    "check_location",
    "check_owner",
    "check_rewindable",
    "check_whole",
    "claim",
    "clone_logs",
    "clone_state",
    "delta_batch",
    "file_system_of",
    "formats",
    "is_being_written",
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
    "qualified",
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
