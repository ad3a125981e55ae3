"""A control root and a stream's control log in it, as `airflow streams init` and a first deployment make them."""

from __future__ import annotations

from airflow_stream_provider.control import ControlLog, make_root, open_log
from airflow_stream_provider.lifecycle.record import Record
from devstack.control_folder import folder_of, publish
from tests.support.story import record, write


def new_log(control: str, stream: str = "orders") -> ControlLog:
    make_root(control)
    return open_log(control, stream, create=True)


def log_of(control: str, *records: Record) -> ControlLog:
    """The log of the stream orders, with these records."""
    log = new_log(control)
    write(log, *records)
    return log


def published(log: ControlLog, deployment: str) -> Record:
    """Publish a release, and return a `declared` record of it that can be submitted."""
    script = folder_of(log).with_name("app.py")
    script.write_text("x = 1\n")
    release = publish(folder_of(log), version="1", application=script)
    return record("declared", deployment=deployment, release=release.to_json(), policy={}, reason="")
