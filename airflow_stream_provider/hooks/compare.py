"""Compare what a stream's YAML asks for with what runs, and decide whether it is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP, file_hashes
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.release import Release
from airflow_stream_provider.lifecycle.state import Deployment, StreamPhase, StreamState
from airflow_stream_provider.lifecycle.wish import Wish
from airflow_stream_provider.releases.address import StorageAddress
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec

# Said in the form of an upgrade, or by a command, and never in the YAML.
_OF_ONE_UPGRADE = ("changed_checkpoints", "no_way_back", "skip", "find")


@dataclass(frozen=True)
class Declaration:
    """The parts of a declared deployment.

    :param files: the SHA-256 of each file of the release, by its name; None: not known.
    :param cluster: Airflow connection of the cluster; empty: not known.
    """

    release: Release
    files: Mapping[str, str] | None
    policy: Policy
    cluster: str

    @property
    def fields(self) -> dict[str, Any]:
        """Its values by the names of the YAML's fields, and below ``files`` the hash of each file.

        Fields that are not set, or not known, are left out.
        """
        release, policy = self.release, self.policy.to_json()
        offsets_group = policy.pop("offsets_group")
        for name in _OF_ONE_UPGRADE:
            policy.pop(name, None)
        single = {
            "version": release.version,
            "application": release.application,
            "arguments": list(release.arguments),
            "py_files": list(release.py_files),
            "cluster": self.cluster,
            # Each control log has a part of it, which no YAML names.
            "storage": StorageAddress.parse(release.storage).whole.url if release.storage else "",
            "offsets_group": offsets_group,
        }
        groups = {
            "files": self.files or {},
            "conf": release.conf,
            "environment": release.environment,
            "upgrade": policy,
        }
        inner = {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
        return {"release": release.hash, **{name: value for name, value in single.items() if value}, **inner}


@dataclass(frozen=True)
class Difference:
    """One field that differs.

    :param field: its name in the YAML, such as ``conf.spark.cores.max``; ``files.NAME`` is the SHA-256 of a file, and
        ``release`` the hash over all that a release is made of.
    :param running: its value in what runs; None: it has none.
    :param yaml: its value by the YAML; None: it has none.
    """

    field: str
    running: Any
    yaml: Any


def differences(running: Declaration, yaml: Declaration) -> tuple[Difference, ...]:
    """Return what differs; an upgrade with the values of the YAML would change all of it, and nothing else.

    The hash differs if anything does that a release is made of, also where it is not known which file.
    """
    old, new = running.fields, yaml.fields
    names = [name for name in dict.fromkeys((*old, *new)) if _comparable(name, running, yaml)]
    return tuple(Difference(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name))


def _comparable(name: str, *sides: Declaration) -> bool:
    if name.startswith("files."):
        return all(side.files is not None for side in sides)
    return name != "cluster" or all(side.cluster for side in sides)


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
    asked = Declaration(held.release, None, held.policy, held.cluster)
    return Comparison(spec.name, state.phase, held, wanted, *compare_with(hook, asked, spec, wanted, files))


def compare_with(
    hook: StreamHook, asked: Declaration, spec: StreamSpec, wanted: Release, files: Mapping[str, bytes]
) -> tuple[tuple[Difference, ...], str]:
    """Return how what was asked for differs from what the YAML asks for, and why its files are not compared.

    :param wanted: the release of the YAML, with its files.
    """
    stored, problem = None, ""
    if asked.release.hash != wanted.hash:
        try:
            stored = hook.releases.verify(asked.release)
        except StreamError as error:
            problem = str(error)
    new = Declaration(replace(wanted, storage=hook.storage), file_hashes(files), spec.policy(), spec.cluster)
    return differences(replace(asked, files=stored), new), problem


# They differ once this provider was upgraded: that is no wish to upgrade every stream at once.
_OURS = {"release", f"files.{LAUNCHER}", f"files.{RUNTIME_ZIP}"}


def unasked_release(hook: StreamHook, state: StreamState, spec: StreamSpec) -> str:
    """Return a name of the wish when an upgrade to the YAML's release is due; empty when it is not.

    The name is the same as long as the YAML asks for this release after the same one: an upgrade that could not even
    begin is not started again and again.

    It is compared with what was asked for last, not with what holds: a release that was refused or rolled back is not
    tried again until something changes. Only while the stream runs and no change of holder is under way.

    :raises StreamError: no release can be made of the YAML, or the stored files of the other one cannot be read.
    """
    newest = asked_for_last(state)
    if newest is None or state.phase is not StreamPhase.RUNNING or state.open_request is not None:
        return ""
    wanted, another, problem = _compared(hook, state, newest, spec)
    return f"{wanted.hash[:16]}__{newest.id}" if another and not problem else ""


def asked_for_last(state: StreamState) -> Wish | None:
    """Return the wish that brought in a release last, whatever became of it; None: there is none.

    A redeploy was not asked for by the YAML, and is left out; so is what only looks at something.
    """
    own = (
        each
        for each in reversed(list(state.wishes.values()))
        if each.option("release") is not None and each.option("redeployed") is not True and not each.only_looks
    )
    return next(own, None)


def refuse_unasked(hook: StreamHook, state: StreamState, spec: StreamSpec, run: str, stored: str = "") -> None:
    """Check that an upgrade may begin which `upgrade.schedule`, `on_change` or `refresh` has triggered, no person.

    Such a run may have waited for long, say in a DAG that was paused.

    :param run: that carries it out; see `TaskIdentity.run`. Its own steps from before it was cleared are no reason.
    :param stored: hash of the release that a fresh driver is to run; empty: the YAML's is asked for.
    :raises StreamError: the stream was stopped, or never ran; or the YAML asks for a release that was refused, or that
        somebody went back from; or as `unasked_release`.
    """
    by_hand = "To have it all the same, trigger this DAG by hand."
    wish = state.wish
    if wish is not None and wish.goal.rest and not wish.by.startswith(run):
        raise StreamError(
            f"The stream was stopped by {wish.author}, and only a person starts it.",
            next_step=f"Nothing was touched. {by_hand}",
        )
    newest, held = asked_for_last(state), state.last_deployment
    if stored and held is not None and held.release.hash != stored:
        raise StreamError(
            f"A fresh driver was due for release {stored[:12]}, and {held.id} ({held.release.version}) holds by now.",
            next_step=f"Nothing was touched. {by_hand}",
        )
    if stored and held is not None:
        return
    if newest is None or held is None:
        raise StreamError(
            "No driver has held the stream yet, and only a person starts it: a job may write its checkpoints that is "
            "to be adopted.",
            next_step=f"Nothing was touched. {by_hand}",
        )
    asked = Release.from_json(newest.option("release"))
    if asked.hash == held.release.hash or newest.by.startswith(run):
        return
    _, another, problem = _compared(hook, state, newest, spec)
    if another:
        return
    asks = "Nobody can tell whether the YAML asks for anything but" if problem else "The YAML asks for"
    known = state.family(newest.family)
    raise StreamError(
        f"{asks} release {asked.version}{f' ({known[-1].id})' if known else ''}, which was refused, or which somebody "
        f"went back from: {held.release.version} ({held.id}) held last. Only a person brings it again. "
        f"{problem}".rstrip(),
        next_step=f"Nothing was touched. Correct the release, or write what holds into the YAML. {by_hand}",
    )


def _compared(hook: StreamHook, state: StreamState, newest: Wish, spec: StreamSpec) -> tuple[Release, bool, str]:
    """Return the YAML's release, whether it is another one than that of a wish, and why the files are not compared."""
    wanted, files = RequestedRelease.of(spec).make()
    release, policy = Release.from_json(newest.option("release")), Policy.from_json(newest.option("policy") or {})
    clusters = [each.cluster for each in state.family(newest.family)]
    asked = Declaration(release, None, policy, clusters[-1] if clusters else "")
    found, problem = compare_with(hook, asked, spec, wanted, files)
    return wanted, any(each.field not in _OURS for each in found), problem
