"""What a driver does with the modules that travel to it, run by itself under the cluster's Python.

driver_part.py ZIP CONTROL_URL CHECKPOINT [PATH_OF_PYSPARK...]    with records for the log on standard input

Appends the records, writes a heartbeat, reads the checkpoint, and prints as JSON what it found. Then imports all that
the zip has, runtime/ only where pyspark is on the path. Python 3.9 syntax, and nothing but the standard library.
"""

from __future__ import annotations

import importlib
import json
import sys
import zipfile
from pathlib import PurePosixPath


def main(archive: str, control: str, checkpoint: str, *pyspark: str) -> None:
    sys.path.insert(0, archive)
    paths = [PurePosixPath(name).with_suffix("") for name in zipfile.ZipFile(archive).namelist()]
    modules = [".".join(path.parent.parts if path.name == "__init__" else path.parts) for path in paths]
    runtime = [name for name in modules if name.split(".")[1:2] == ["runtime"]]
    imported = [name for name in modules if name not in runtime]
    for name in imported:
        importlib.import_module(name)
    assert "pyspark" not in sys.modules, "lifecycle, control and checkpoint need the standard library only"

    from airflow_stream_provider.checkpoint import read
    from airflow_stream_provider.control import open_log
    from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
    from airflow_stream_provider.lifecycle.record import Record

    log = open_log(control, "orders")
    for line in sys.stdin.buffer:
        log.append(Record.from_json(line, 0), log.state.seq)
    log.beat("orders-1.0000000a", Heartbeat(counter=1))
    found = {"python": sys.version_info[:3], "state": repr(log.state), "checkpoint": repr(read(checkpoint))}

    if pyspark:
        sys.path[1:1] = pyspark
        for name in runtime:
            importlib.import_module(name)
        imported += runtime
    print(json.dumps({**found, "imported": imported}))


if __name__ == "__main__":
    main(*sys.argv[1:])
