"""Names of streams and the ids made of them. A checked name is safe in a path, a URL and a shell word."""

from __future__ import annotations

import hashlib
import re

from airflow_stream_provider.lifecycle.errors import SpecError

STREAM = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
DEPLOYMENT = re.compile(r"[a-z0-9][a-z0-9_-]{0,127}")
# The name of a note in a control root: that of a stream, or a dot and the id of a DAG.
NOTE = re.compile(r"\.?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,250}")
# Part of the Spark application's name, in which the cluster's pages are searched for deployments.
VERSION = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
INCARNATION = re.compile(DEPLOYMENT.pattern + r"\.[0-9a-f]{8}")
# The epoch is there when YARN's ResourceManager keeps its state.
CONTAINER = re.compile(r"container_(?:e\d+_)?(\d+)_(\d+)_\d+_\d+")
# SHA-256.
RELEASE_HASH = re.compile(r"[0-9a-f]{64}")


def check_stream_name(name: str) -> str:
    """Return the name of a stream; raise SpecError when it has characters that mean something in a path or a shell."""
    if not STREAM.fullmatch(name):
        raise SpecError(
            f"{name!r} cannot be a stream's name: up to 63 of a-z, 0-9, '_' and '-', starting with a letter or digit.",
            next_step="Rename the stream.",
            name=name,
        )
    return name


def check_version(version: str) -> str:
    """Return the label of a release; raise SpecError when it has characters that mean something in a name or a page."""
    if not VERSION.fullmatch(version):
        raise SpecError(
            f"{version!r:.80} cannot be a release's version: up to 64 of letters, digits, '_', '.', '+' and '-'.",
            next_step="Choose another label, such as 2.1.0.",
        )
    return version


def check_id(value: str, pattern: re.Pattern[str]) -> str:
    """Return an id, or a release's hash; raise SpecError when it does not match its pattern."""
    if not pattern.fullmatch(value):
        raise SpecError(
            f"{value!r} is not an id of the form {pattern.pattern}.",
            next_step="Copy the id from `airflow streams status` or from the control log.",
        )
    return value


def request_id(*parts: object) -> str:
    """Return the id of a request, 16 hex digits: the same parts always give the same id.

    :param parts: what identifies one act of one task: DAG, run, task, map index and purpose; never the try number.
    """
    text = "\x1f".join(str(part) for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def deployment_id(stream: str, version: str, *parts: object) -> str:
    """Return the id of a deployment, such as ``orders-2-1-0-1a2b3c4d``: the same for every try of its task.

    It is unique in its control log. Another Airflow may make the same one in its own: what runs on a cluster, which
    they may share, also says of which log it is (`application_name`, `clusters.whose`).
    """
    label = re.sub(r"[^a-z0-9]+", "-", version.lower()).strip("-")[:24]
    return f"{stream}-{label}-{request_id(stream, version, *parts)[:8]}"


def application_name(stream: str, version: str, deployment: str, log: str = "") -> str:
    """Return the name of a driver's Spark application, such as ``orders 2.1.0 [orders-2-1-0-1a2b3c4d] 5e6f7a8b``.

    :param log: what tells the control log from any other (`Store.origin`); its beginning stands at the end. Empty: not
        known.
    """
    return f"{stream} {version} [{deployment}] {log_label(log)}".rstrip()


def log_label(log: str) -> str:
    """Return as much of a control log's identity as a name has room for."""
    return log[:8]


def application_of(container: str) -> str:
    """Return the application of a container of YARN; an empty text if it is none.

    >>> application_of("container_e17_1410901177871_0001_01_000005")
    'application_1410901177871_0001'
    """
    found = CONTAINER.fullmatch(container)
    return f"application_{found[1]}_{found[2]}" if found else ""


def deployment_of(incarnation: str) -> str:
    """Return the deployment of an incarnation: the part before the last dot."""
    return incarnation.rpartition(".")[0]
