"""The words of a run's graph for a person on call: a sentence for each task, and what to do when it fails.

The ids of tasks are what XCom, history and scripts go by, so they stay as they are; these words may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from airflow.sdk import TaskGroup

from airflow_stream_provider.planning.operation import Operation


# A dataclass would take ten times as long in the DAG processor.
class Words(NamedTuple):
    """The words for a task or a group of tasks.

    :param name: a sentence without its full stop, shown in place of the id.
    :param about: what it does, and what to do when it fails: of a task Markdown, of a group plain text.
    """

    name: str
    about: str


def task(words: Mapping[str, Words], task_id: str) -> dict[str, Any]:
    """Return the arguments of an operator that say which task it is."""
    said = words[task_id]
    return {"task_id": task_id, "task_display_name": said.name, "doc_md": said.about}


def group(words: Mapping[str, Words], group_id: str) -> TaskGroup:
    """Return a group for tasks of the DAG that is being built. Their ids do not get its id as a prefix."""
    said = words[group_id]
    return TaskGroup(group_id, prefix_group_id=False, group_display_name=said.name, tooltip=said.about)


UPGRADE = {
    "check": Words(
        "Check everything, before anything is touched",
        "YAML, script, settings, notifiers, control log, Kafka, and room on the cluster. If it fails, nothing was "
        "touched: the error says what to correct. Then trigger the upgrade again.",
    ),
    "new_release": Words(
        "Bring the new release up beside the old one",
        "The old release runs on all the while; with the strategy restart only approve has to do here. Whatever "
        "fails here ends the new release and changes nothing else.",
    ),
    "submit": Words(
        "Start the new release and rehearse it",
        "What earlier upgrades left warm makes room for it. Its driver comes up as a standby and rehearses on a clone "
        "of the checkpoint: it reads live data and writes nothing. If it fails, the error has the reason, with the end "
        "of the driver's log. Skipped with the strategy `restart`.",
    ),
    "judge": Words(
        "Compare the rehearsal with what runs",
        "How long its batches take on the same rows, and how large its state is, beside the old release. Where it "
        "may not keep up, or its machine was busy, `approve` asks a person.",
    ),
    "approve": Words(
        "Wait for a person's yes",
        "Shows what will run and how it rehearsed. Answer under **Required Actions**. A no, no answer in time, and the "
        "end of the standby end it; the old release runs on. Skipped where the comparison leaves no doubt and the YAML "
        "asks for no approval.",
    ),
    "take_over": Words(
        "Hand the stream over, and watch the new release",
        "From here on the new release runs the stream. A fault of it takes it back.",
    ),
    "hand_over": Words(
        "Hand the stream over between two batches",
        "The old release ends its batch and lets go; the new one takes the same checkpoint, so nothing is lost or "
        "doubled. A holder that is dead or hangs is fenced first. With the strategy `restart`, for a cluster without "
        "room for two, the old release stops first, and the stream stands until the new one is up. If it fails, the "
        "error says who holds.",
    ),
    "soak": Words(
        "Watch the new release",
        "For `upgrade.soak`. It fails as soon as the new release has failed, gives no sign of life, or stays too far "
        "behind Kafka; then the stream is given back.",
    ),
    "way_back": Words(
        "The way back, if it is no good",
        "Skipped when all is well. Runs as well when a person marks the run as failed, so that no standby is left.",
    ),
    "roll_back": Words(
        "Give the stream back to the old release",
        "A hand-over in the other direction while the old release is warm; else it is started again. A release that "
        "has not taken over is called off, and ended. Skipped when the soak ended well. If it fails, the error says "
        "who holds; clear this task, or use **roll-back** in `NAME__operate`.",
    ),
    "afterwards": Words(
        "Keep the old release warm for a while, and say how it ended",
        "How the whole run ended is what the last task says.",
    ),
    "retire": Words(
        "Plan the end of the old release",
        "Triggers `NAME__retire` for when `upgrade.keep_previous` is over. Until then a roll-back takes seconds.",
    ),
    "report": Words(
        "Say how the upgrade ended",
        "Fails unless the new release took over and passed its soak, or a person said no; its error is the one to "
        "read first.",
    ),
}

OPERATE = {
    "look": Words(
        "Say what will be done, before anything is touched",
        "Holder, steps, and records that are read again. If it fails, it was refused, and nothing was touched.",
    ),
    "confirm": Words(
        "Wait for a person's yes",
        "Shows that. Answer under **Required Actions** within an hour; otherwise nothing is done.",
    ),
    "asked_for": Words(
        "Do what was asked for",
        "What was not asked for is skipped. What was cut off can be cleared: it finds in the control log what was "
        "done. What missed the end of a batch needs a new run.",
    ),
    **{
        operation.value: Words(name, operation.description)
        for operation, name in {
            Operation.STOP: "Stop the stream after its batch",
            Operation.ROLL_BACK: "Give the stream back to the release before",
            Operation.ABORT: "Call the new release off",
            Operation.FENCE: "End a driver by force, and make sure that it is gone",
            Operation.PROMOTE: "Let the new release that stands by take over",
            Operation.START: "Start the stream",
            Operation.RESTART: "Stop the stream after its batch, and start it again",
            Operation.RETIRE: "Stop the stream for good",
            Operation.UPGRADE: "Start a run of the upgrade",
        }.items()
    },
    "adoption": Words(
        "Adopt a job that runs without this provider",
        "Skipped unless that was asked for. Until the old job ends nothing has changed, and whatever fails before that "
        "leaves it running.",
    ),
    "stand_by": Words(
        "Bring the stream's driver up beside the old job",
        "It rehearses on a clone of the checkpoints that the job writes now. If it fails, the error has the reason.",
    ),
    "job_ended": Words(
        "Wait until a person has ended the old job",
        "Skipped where the cluster ends it by its id. End the job, see that nothing starts it again, and answer under "
        "**Required Actions**: your name goes into the control log. A no, and no answer within an hour, change "
        "nothing.",
    ),
    "adopt": Words(
        "Take over once the old job is gone and its logs stand still",
        "If it fails, the error says whether the old job has ended: if it has, nobody runs the stream, so start it, or "
        "that job.",
    ),
    "discard": Words(
        "End the new driver, if it did not take over",
        "Skipped when it holds the stream. It fails when it has ended the driver, as the job was not adopted then; the "
        "task before it says why.",
    ),
    "tell": Words("Say in one line what was done", "And who holds the stream now."),
}

RETIRE = {
    "retire": Words(
        "End the release that was kept warm",
        "Its driver exits, and is killed if it does not. Skipped when it holds the stream again.",
    )
}

TRIAL = {
    "trial": Words(
        "Measure a setting against the present one, beside the holder",
        "A driver of the release that holds comes up beside it, measures on clones, and is ended: it never comes to "
        "hold. If it fails, nothing that runs was touched; **abort** in `NAME__operate` ends a driver that is left.",
    )
}

REVIVE = {
    "revive": Words(
        "Bring the stream back, if it has lost its driver",
        "Fences the dead driver, then appoints a warm one of the wished release, or starts that. Skipped, with the "
        "reason, when there is nothing to do. If it fails, the error says why: the release does not come up, there is "
        "no room, or the cluster cannot confirm that the dead driver is gone (look at it, or use **fence** in "
        "`NAME__operate`). The watch tries again by itself.",
    )
}

WATCH = {
    "look": Words(
        "Look at every stream of the folder",
        "Lag, health and drivers; people are told of what is wrong. If it fails, nobody is looked after: its error "
        "says why, and the next look tries again.",
    ),
    "revive": Words(
        "Start the runs that are needed",
        "Triggers `FOLDER__revive` for a stream that has lost its driver, and `NAME__upgrade` for one whose YAML has "
        "changed, with `upgrade.on_change`. There is one for each.",
    ),
}
