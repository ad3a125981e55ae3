"""Compare what a stream's YAML asks for with what runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from airflow_stream_provider.control.releases import file_hashes
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import Deployment, StreamPhase, StreamState
from airflow_stream_provider.releases.differences import Declaration, Difference, differences
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    :param phase: of the stream.
    :param running: the deployment that holds, or without a holder the last one; None: none has ever held.
    :param wanted: the release that an upgrade with the YAML's values would deploy.
    :param found: what differs; empty if none has ever held.
    :param problem: why the files of `running` are not compared one by one; empty: they are.
    """

    stream: str
    phase: StreamPhase
    running: Deployment | None
    wanted: Release
    found: tuple[Difference, ...] = ()
    problem: str = ""

    @property
    def same(self) -> bool:
        """Whether an upgrade would change nothing."""
        return self.running is not None and not self.found

    @property
    def new_release(self) -> bool:
        """Whether an upgrade would deploy another release, and not the same one otherwise."""
        return self.running is None or self.running.release.hash != self.wanted.hash

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        held = self.running
        running = held and {"deployment": held.id, "version": held.release.version, "release": held.release.hash}
        return {
            "stream": self.stream,
            "phase": self.phase.value,
            "same": self.same,
            "new_release": self.new_release,
            "running": running,
            "yaml": {"version": self.wanted.version, "release": self.wanted.hash},
            "differences": [asdict(each) for each in self.found],
            "problem": self.problem,
        }


def compare(spec: StreamSpec) -> Comparison:
    """Return how a stream's YAML and what runs differ; changes nothing.

    The release of the YAML is made as an upgrade makes it, so equal hashes are equal releases.

    :raises SpecError: no release can be made of the YAML.
    :raises ControlUnavailable: the control log cannot be read now.
    """
    hook = StreamHook.of(spec)
    wanted, files = RequestedRelease.of(spec).make()
    state = hook.observe(history=False).state if hook.exists() else StreamState()
    held = state.last_deployment
    if held is None:
        return Comparison(spec.name, state.phase, None, wanted)
    return Comparison(spec.name, state.phase, held, wanted, *compare_with(hook, held, spec, wanted, files))


def compare_with(
    hook: StreamHook, deployment: Deployment, spec: StreamSpec, wanted: Release, files: Mapping[str, bytes]
) -> tuple[tuple[Difference, ...], str]:
    """Return how what a deployment runs differs from what the YAML asks for, and why its files are not compared.

    :param wanted: the release of the YAML, with its files.
    """
    stored, problem = None, ""
    if deployment.release.hash != wanted.hash:
        try:
            stored = hook.releases.verify(deployment.release)
        except StreamError as error:
            problem = str(error)
    old = Declaration(deployment.release, stored, deployment.policy, deployment.cluster)
    new = Declaration(replace(wanted, storage=hook.storage), file_hashes(files), spec.policy(), spec.cluster)
    return differences(old, new), problem
