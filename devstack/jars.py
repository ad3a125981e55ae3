"""The jars of the broker and of Spark's Kafka connector, fetched from their Maven coordinates into one folder.

Nothing is written to `~/.m2`: Spark's own `--packages` fails on a half-filled one. Our folder is a Maven repository of
its own (`repository/`) beside one folder per set, which appears under its name only when it is complete.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devstack.cache import cache_folder, once
from devstack.errors import StackError

if TYPE_CHECKING:
    from jgo.maven import Artifact, MavenContext

KAFKA_VERSION = "4.1.1"
# What Kafka's own distribution binds slf4j to; without a binding the broker logs nothing.
LOG4J_VERSION = "2.24.3"
# Some registries lack the token provider of later versions; it is only used with delegation tokens, and this one fits.
TOKEN_PROVIDER_FALLBACK = "4.0.0"

Progress = Callable[[str, int, int], None]
"""Called with (name of the set, jars fetched so far, jars in all; 0 while the list is being worked out)."""


@dataclass(frozen=True)
class JarSet:
    """The jars of some coordinates and of everything they need at run time."""

    name: str
    coordinates: tuple[str, ...]
    shipped: frozenset[str] = frozenset()
    """Artifact ids that are on the class path already and are left out."""
    fallbacks: tuple[tuple[str, str], ...] = ()
    """(artifact id, version to take where the resolved one is not in the registry)."""

    @property
    def folder_name(self) -> str:
        """The set's name and a hash of what is in it, so that a changed set never meets an old folder."""
        content = repr((self.coordinates, sorted(self.shipped), self.fallbacks))
        return f"{self.name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def kafka_broker() -> JarSet:
    """The KRaft broker, its admin tools and its log."""
    return JarSet(
        f"kafka-{KAFKA_VERSION}",
        (
            f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
            f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J_VERSION}",
        ),
    )


def spark_connector(spark_home: Path) -> JarSet:
    """Spark's Kafka source and sink for the Spark in this folder, without what that Spark ships itself."""
    shipped = {artifact_id(jar.name): jar.name for jar in (spark_home / "jars").glob("*.jar")}
    core = next(
        (re.fullmatch(r"spark-core_([\d.]+)-(.+)\.jar", jar) for jar in shipped.values() if "spark-core_" in jar), None
    )
    if core is None:
        raise StackError(
            f"There is no Spark in {spark_home}.", next_step="Install pyspark there, or name another folder."
        )
    scala, version = core.groups()
    return JarSet(
        f"spark-kafka-{version}",
        (f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}",),
        shipped=frozenset(shipped),
        fallbacks=((f"spark-token-provider-kafka-0-10_{scala}", TOKEN_PROVIDER_FALLBACK),),
    )


def artifact_id(jar: str) -> str:
    """The artifact id in a jar's file name: what stands before the last `-` with a version such as `1.2` behind it.

    >>> artifact_id("spark-sql-kafka-0-10_2.13-4.0.0.jar")
    'spark-sql-kafka-0-10_2.13'
    """
    match = re.fullmatch(r"(.+)-\d+\.\d[\w.-]*\.jar", jar)
    return match.group(1) if match else jar.removesuffix(".jar")


def fetch(jars: JarSet, *, progress: Progress | None = None) -> Path:
    """Return the folder that holds all jars of the set (`jars/` in the cache), fetching them first where it is missing.

    :param progress: called from this thread after every jar; what it raises ends the fetching
    Raises StackError when something cannot be fetched. A second call needs no network.
    """
    root = cache_folder() / "jars"
    return once(root / jars.folder_name, lambda folder: _fill(folder, root, jars, progress or (lambda *_: None)))


def _fill(folder: Path, root: Path, jars: JarSet, progress: Progress) -> None:
    progress(jars.name, 0, 0)
    artifacts = _resolve(jars, _context(root / "repository"))
    with ThreadPoolExecutor(8, thread_name_prefix="jars") as pool:
        fetching = [pool.submit(_fetch_one, artifact, dict(jars.fallbacks)) for artifact in artifacts]
        try:
            for done, future in enumerate(as_completed(fetching), start=1):
                jar = future.result()
                os.link(jar, folder / jar.name)
                progress(jars.name, done, len(fetching))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _resolve(jars: JarSet, context: MavenContext) -> list[Artifact]:
    # "!" is jgo's mark for plain Maven rules. Without it every coordinate manages the versions of all the others, and
    # the log binding would bring an older Kafka client.
    inputs, needed = context.resolver.resolve([context.create_dependency(f"{each}!") for each in jars.coordinates])
    return [
        dependency.artifact
        for dependency in (*inputs, *needed)
        if dependency.scope in (None, "compile", "runtime")
        and not dependency.optional
        and dependency.artifactId not in jars.shipped
    ]


def _fetch_one(artifact: Artifact, fallbacks: dict[str, str]) -> Path:
    try:
        return artifact.resolve()
    except _NotFound as error:
        version = fallbacks.get(artifact.artifactId)
        if version is None or version == artifact.version:
            raise StackError(str(error), next_step="Check the version, or use a registry that has it.") from error
        return artifact.component.project.at_version(version).artifact().resolve()


class _NotFound(RuntimeError):
    """The registry does not have it. A RuntimeError, because jgo goes on without a POM only after one of those."""


def _context(repository: Path) -> MavenContext:
    """jgo's resolver on a repository of our own, with downloads that are whole or not there at all.

    jgo's download leaves the torn file of a broken connection behind and takes it for the jar next time, and while it
    resolves it takes a connection error for a POM that is not needed.
    """
    from jgo.maven import MavenContext, PythonResolver

    local = threading.local()

    class WholeDownloads(PythonResolver):
        def download(self, artifact: Artifact) -> Path:
            target = artifact.cached_path
            assert target is not None  # it is None only without repo_cache
            target.parent.mkdir(parents=True, exist_ok=True)
            for remote in artifact.context.remote_repos.values():
                url = f"{remote}/{artifact.component.path_prefix.as_posix()}/{artifact.filename}"
                content = _get(local, url)
                if content is not None:
                    _verify(content, _get(local, f"{url}.sha1") if artifact.packaging == "jar" else None, url)
                    _write_whole(target, content)
                    return target
            raise _NotFound(f"{artifact} is not in {', '.join(artifact.context.remote_repos.values())}.")

    # Without `repo_cache` jgo would fill ~/.m2.
    return MavenContext(resolver=WholeDownloads(), repo_cache=repository)


def _get(local: Any, url: str) -> bytes | None:
    """The body of the answer, None for 404; one kept connection per thread, three tries."""
    import requests
    from requests.adapters import HTTPAdapter, Retry

    if not hasattr(local, "session"):
        local.session = requests.Session()
        retry = Retry(3, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504))
        local.session.mount("https://", HTTPAdapter(max_retries=retry))
    try:
        answer = local.session.get(url, timeout=60)
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return bytes(answer.content)
    except requests.RequestException as error:
        raise StackError(
            f"Fetching {url} failed: {error}.",
            next_step="Check the way to the registry (proxy, certificates) and start again; what is there is kept.",
        ) from error


def _verify(content: bytes, published: bytes | None, url: str) -> None:
    if published and published.split()[0].decode() != hashlib.sha1(content).hexdigest():
        raise StackError(f"{url} does not have the SHA-1 published beside it.", next_step="Start again.")


def _write_whole(target: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        file.write(content)
    Path(file.name).replace(target)
