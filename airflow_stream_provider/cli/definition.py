"""The definition of `airflow streams`: each start of Airflow's command line imports it, so it imports little."""

from __future__ import annotations

from functools import partial

from airflow.cli.cli_config import (
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
    positive_int,
)

from airflow_stream_provider.planning.operation import ABOUT_FIELDS, Operation

_COMMANDS = "airflow_stream_provider.cli.commands"

_NAME = Arg(("name",), help="Name of the stream")
_CONTROL = Arg(("control",), help="`control` in the YAML, such as file:///data/streams or kafka://CONNECTION/PREFIX")
_CHECKED = Arg(
    ("folder",),
    nargs="?",
    metavar="FOLDER",
    type=str,
    help="Folder of the streams' YAML files; default: streams/ in the DAGs folder",
)
_FOLDER = Arg(
    ("-f", "--folder"),
    metavar="FOLDER",
    type=str,
    help="Folder of the streams' YAML files; default: streams/ in the DAGs folder",
)
_JSON = Arg(("--json",), action="store_true", help="Print JSON, for programs")
_WATCH = Arg(("--watch",), action="store_true", help="Measure again every 5 seconds until Ctrl-C")
_HISTORY = Arg(("--history",), action="store_true", help="Show what the watch has measured, instead of measuring")
_REASON = Arg(
    ("--reason",), metavar="TEXT", help="Why; it is written into the stream's history. Needed but for a dry run"
)
_DRY_RUN = Arg(("--dry-run",), action="store_true", help="Say what would happen, and do nothing")
_YES = Arg(("--yes",), action="store_true", help="Do not ask")
_CONFIRMED_BY = Arg(("--confirmed-by",), metavar="WHO", help=ABOUT_FIELDS["confirmed_by"])
_JOB = Arg(("--job",), metavar="ID", help=ABOUT_FIELDS["job"])
_RELEASE = Arg(("--release",), metavar="HASH", required=True, help=ABOUT_FIELDS["release"])
_TO = Arg(("--to",), metavar="TIME", required=True, help=ABOUT_FIELDS["to"])
_QUERY = Arg(("--query",), metavar="NAME", help=ABOUT_FIELDS["query"])
_DECLARED = Arg(
    ("--control",),
    metavar="URL",
    help="The control root of a stream whose YAML is gone or cannot be used: it goes by what was declared last",
)
_LAST = Arg(("-n", "--last"), type=positive_int(allow_zero=False), default=30, help="How many to show; default: 30")

_LEDGER = Arg(
    ("--ledger",), metavar="CONNECTION", help="Measure by the ledger of a sink, in the database of this connection"
)
_CONNECTION = Arg(
    ("--connection",), metavar="CONNECTION", required=True, help="Airflow connection of the sink's database"
)

_KAFKA = Arg(("--kafka",), action="store_true", help="Audit Kafka alone")
_SPARK = Arg(("--spark",), action="store_true", help="Audit Spark and its cluster alone")
_FAIL_ON = Arg(
    ("--fail-on",),
    choices=("info", "low", "medium", "high", "critical"),
    default="high",
    help="Severity from which on a finding counts for the exit code; default: high",
)
_CONF = Arg(("--conf",), metavar="NAME=VALUE", action="append", help="SQL setting to try; may be given again")
_OPTION = Arg(
    ("--option",), metavar="NAME=VALUE", action="append", help="Option of the Kafka sources to try; may be given again"
)
_PERSIST = Arg(("--persist",), action="store_true", help="Try to persist each batch for the function of foreachBatch")
_FIND = Arg(("--find",), action="store_true", help="Look for the records at which the batch fails, on clones")
_SKIP = Arg(("--skip",), metavar="RECORD", action="append", help="Leave a record out, such as orders-3@1234")
_TAKE_BACK = Arg(("--take-back",), metavar="RECORD", action="append", help="Leave a record out no more")
_DEAD_LETTER = Arg(("--dead-letter",), metavar="TOPIC", help="Copy what is left out to this topic first")

_ACT = (_NAME, _REASON, _DRY_RUN, _YES, _JSON, _FOLDER, ARG_VERBOSE)
_MORE = {
    Operation.STOP: (_DECLARED,),
    Operation.REDEPLOY: (_RELEASE,),
    Operation.REWIND: (_TO, _QUERY),
    Operation.ROLL_BACK: (_DECLARED,),
    Operation.ABORT: (_DECLARED,),
    Operation.FENCE: (_CONFIRMED_BY, _DECLARED),
    Operation.RETIRE: (_DECLARED,),
    Operation.ADOPT: (_JOB, _CONFIRMED_BY),
}
_ACT_CODES = (
    "Exit code: 0 = done, or it was already; 1 = refused, nothing was touched; 2 = it was begun and failed, or the "
    "command line is wrong; 3 = unknown: give the command again."
)
_CODES = "Exit code: 0 = well, 1 = falls behind (WARN), 2 = bad, 3 = unknown."


def _acting(operation: Operation) -> ActionCommand:
    """Return a command that changes a stream."""
    act = partial(lazy_load_command("airflow_stream_provider.cli.act.act"), operation=operation.value)
    args = (*_ACT, *_MORE.get(operation, ()))
    about = operation.description.rstrip(".")
    return ActionCommand(name=operation.value, help=about, func=act, args=args, epilog=_ACT_CODES)


def get_streams_cli_commands() -> list[CLICommand]:
    """Return `airflow streams`."""
    return [
        GroupCommand(
            name="streams",
            help="Watch Spark streams, and operate them: stop, start, upgrade, roll back, fence",
            subcommands=(
                ActionCommand(
                    name="init",
                    help="Make a control root, once, before its first stream is deployed",
                    func=lazy_load_command(f"{_COMMANDS}.init"),
                    args=(_CONTROL, ARG_VERBOSE),
                ),
                ActionCommand(
                    name="lag",
                    help="Measure how far a stream is behind Kafka, or show what its watch has measured",
                    func=lazy_load_command(f"{_COMMANDS}.lag"),
                    args=(_NAME, _FOLDER, _JSON, _WATCH, _HISTORY, _LEDGER, _LAST, ARG_VERBOSE),
                    epilog=f"{_CODES[:-1]}; with --history by the last sample.",
                ),
                ActionCommand(
                    name="status",
                    help="Show all streams: what runs, and what their watch measured last",
                    func=lazy_load_command(f"{_COMMANDS}.status"),
                    args=(_FOLDER, _JSON, ARG_VERBOSE),
                    epilog=_CODES,
                ),
                ActionCommand(
                    name="history",
                    help="Show a stream's life: who deployed, handed over, rolled back or stopped what, when and why",
                    func=lazy_load_command(f"{_COMMANDS}.history"),
                    args=(_NAME, _FOLDER, _JSON, _LAST, _DECLARED, ARG_VERBOSE),
                    epilog="Exit code: 0 = shown, 3 = its control log cannot be read.",
                ),
                ActionCommand(
                    name="ledger",
                    help="Show what an exactly-once sink holds of a stream: offsets, who writes, the last batches",
                    func=lazy_load_command(f"{_COMMANDS}.ledger"),
                    args=(_NAME, _CONNECTION, _FOLDER, _JSON, _LAST, ARG_VERBOSE),
                    epilog="Exit code: 0 = shown, 3 = the ledger cannot be read.",
                ),
                ActionCommand(
                    name="diff",
                    help="Show how a stream's YAML and what runs differ: what an upgrade would change",
                    func=lazy_load_command(f"{_COMMANDS}.diff"),
                    args=(_NAME, _FOLDER, _JSON, ARG_VERBOSE),
                    epilog="Exit code: 0 = they are the same, 1 = they differ, 3 = they cannot be compared.",
                ),
                ActionCommand(
                    name="audit",
                    help="Audit what a stream stands on, its Kafka and its Spark, and say how to change it",
                    func=lazy_load_command(f"{_COMMANDS}.audit"),
                    args=(_NAME, _KAFKA, _SPARK, _FAIL_ON, _FOLDER, _JSON, ARG_VERBOSE),
                    epilog="Exit code: 0 = no finding so severe, 1 = there is one, 3 = a part cannot be audited.",
                ),
                ActionCommand(
                    name="validate",
                    help="Check a folder of YAML files, as CI does: without a connection or a control log",
                    func=lazy_load_command(f"{_COMMANDS}.validate"),
                    args=(_CHECKED, _JSON, ARG_VERBOSE),
                    epilog="Exit code: 0 = every file can be used, 1 = it has errors, 3 = there is nothing to check.",
                ),
                ActionCommand(
                    name="advice",
                    help="Show what would make a stream faster, by what its driver has measured, and what was tried",
                    func=lazy_load_command("airflow_stream_provider.cli.tuning.advice"),
                    args=(_NAME, _FOLDER, _JSON, ARG_VERBOSE),
                    epilog="Exit code: 0 = shown, 3 = its control log cannot be read.",
                ),
                ActionCommand(
                    name="trial",
                    help="Measure settings against the present ones, on clones beside the holder, before they are live",
                    func=lazy_load_command("airflow_stream_provider.cli.tuning.trial"),
                    args=(*_ACT, _CONF, _OPTION, _PERSIST),
                    epilog=_ACT_CODES,
                ),
                ActionCommand(
                    name="dossier",
                    help="Show why a batch fails and what it reads; find its bad records; leave them out by a wish",
                    func=lazy_load_command("airflow_stream_provider.cli.dossier.dossier"),
                    args=(
                        *(_NAME, _FIND, _SKIP, _TAKE_BACK, _DEAD_LETTER),
                        *(_REASON, _YES, _JSON, _FOLDER, ARG_VERBOSE),
                    ),
                    epilog=f"{_ACT_CODES} Without an option: 1 = a query fails.",
                ),
                *(_acting(each) for each in Operation),
            ),
        )
    ]
