"""Several who do the same at the same moment, to places where only one may win or all must agree."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from py4j.protocol import Py4JJavaError

from airflow_stream_provider.checkpoint import locate
from airflow_stream_provider.control import make_root
from airflow_stream_provider.lifecycle.errors import CheckpointError, StreamError
from airflow_stream_provider.runtime.ownership import Ownership
from airflow_stream_provider.runtime.places import open_owners

MANY = 8


def errors_at_once(call: Callable[[], object]) -> list[StreamError]:
    """Call this in eight threads that begin together, and return the errors of ours that they raised."""
    start, errors = threading.Barrier(MANY), list[StreamError]()

    def one() -> None:
        start.wait()
        try:
            call()
        except StreamError as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(MANY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def claim_at_once(control: str, location: str) -> list[str]:
    """Let eight streams of a new control root claim a checkpoint, and return those that own it."""
    make_root(control)

    def claim(number: int) -> str:
        try:
            Ownership(f"s{number}", control, open_owners(control)).claim(location)
        except CheckpointError:
            return ""
        return f"s{number}"

    with ThreadPoolExecutor(MANY) as pool:
        return [name for name in pool.map(claim, range(MANY)) if name]


def commit_at_once(session: Any, location: str) -> list[int]:
    """Let eight writers write one file as Spark writes its logs; return those who take theirs for written.

    :param session: a SparkSession.
    """
    streaming = session._jvm.org.apache.spark.sql.execution.streaming
    path = session._jvm.org.apache.hadoop.fs.Path(location)
    conf = session._jsparkSession.sessionState().newHadoopConf()
    files = [streaming.CheckpointFileManager.create(path.getParent(), conf) for _ in range(MANY)]
    files[0].mkdirs(path.getParent())
    start = threading.Barrier(MANY)

    def commit(number: int) -> bool:
        stream = files[number].createAtomic(path, False)
        stream.write(str(number).encode())
        start.wait()
        try:
            stream.close()
        except Py4JJavaError:
            return False
        return True

    with ThreadPoolExecutor(MANY) as pool:
        return [number for number, won in enumerate(pool.map(commit, range(MANY))) if won]


def replace_while_read(root: str, times: int = 20) -> None:
    """Replace a file again and again while another thread reads it, which finds each time all of one or of the next."""
    file: Any = locate(f"{root}/offsets/7")
    texts = [f"v1\n{number}\n".encode() * 500 for number in range(times + 1)]
    file.files.write(file, texts[0])
    over, seen = threading.Event(), set()

    def read() -> None:
        while not over.is_set():
            seen.add(file.files.read(file))

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        for text in texts[1:]:
            file.files.replace(file, text)
            assert file.files.read(file) == text
        over.set()
        reading.result()
    assert seen <= {*texts}
    assert len(seen) > 1, "it was read meanwhile"
    assert file.files.names(file.parent) == ["7"]
