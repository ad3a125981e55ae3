"""The arguments of a command line: connections, the folder, and one stream of it."""

from __future__ import annotations

import os
import pwd
import socket
from argparse import Namespace
from pathlib import Path

from airflow.configuration import conf

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.planning.command_identity import person
from airflow_stream_provider.spec.folder import read_folder
from airflow_stream_provider.spec.stream import StreamSpec


def read_connections() -> None:
    """Let Airflow read connections wherever they live, the database too, as for `airflow connections test`."""
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"


def given_by() -> str:
    """Return the person of this command, such as ``anna@edge1``; with sudo, the one who has called that.

    Not LOGNAME or USER: sudo and containers set them to Airflow's user, and everybody as he likes.
    """
    uid = os.getuid()
    try:
        name = os.environ.get("SUDO_USER") or pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid-{uid}"  # as in a container with a user of its own number
    return person(name, socket.gethostname())


def given_folder(args: Namespace) -> Path:
    """Return the folder of the YAML files."""
    return Path(args.folder) if args.folder else Path(conf.get("core", "dags_folder")) / "streams"


def given_stream(args: Namespace) -> StreamSpec:
    """Return the stream that was named.

    :raises SpecError: there is none of that name, or its YAML cannot be used.
    """
    folder = given_folder(args)
    found = read_folder(folder)
    file = next((each for each in found if each.name == args.name), None)
    if file is not None and file.error is not None:
        raise file.error
    if file is None or file.spec is None:
        broken = [each.error for each in found if each.error is not None]
        names = ", ".join(each.name for each in found if each.spec is not None) or "none"
        raise SpecError(
            f"There is no stream {args.name} in {folder}; there are: {names}.",
            next_step=" ".join(str(error) for error in broken) or "Name one of them, or give --folder.",
        )
    return file.spec


def given_stream_as_far_as_known(args: Namespace) -> StreamSpec:
    """Return the stream that was named; of one whose YAML cannot be used, those fields that are right (`problem`).

    A stream runs on when a typo is saved, and has to be stopped all the same.

    :raises SpecError: there is none of that name.
    """
    file = next((each for each in read_folder(given_folder(args)) if each.name == args.name), None)
    return given_stream(args) if file is None else file.known
