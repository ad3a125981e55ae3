"""Check a release before anything is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException
from typing_extensions import override

from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError, StreamError
from airflow_stream_provider.lifecycle.ids import deployment_id
from airflow_stream_provider.operators.release import ReleaseOperator

if TYPE_CHECKING:
    from airflow_stream_provider.lifecycle.release import Release
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import TaskIdentity


class CheckReleaseOperator(ReleaseOperator):
    """Check a release and everything it needs: files, settings, notifiers, the control folder, the broker, the cluster.

    Also what the stream has become: whether the cluster runs another instance of it, whether its checkpoints are whole
    (those that this machine sees), whether Kafka still has what it reads next, and how its topics are set up. A finding
    that does not hinder an upgrade is logged as a warning. Fails with one sentence that says what to do. Touches
    nothing that runs.

    :param room: also fail when the cluster has no room now for a second application, unless deployments of earlier
        runs are still warm: those make room next. (templated: `True` or `False`)
    :param strategy: `handover` or `restart`; default: the YAML's. With `upgrade.approval` another one is refused:
        `restart` stops the old release before anybody is asked. (templated)
    :param stored: hash of a stored release, or its first digits: that is deployed. (templated)
    :param rewind: from where records are read again, as `airflow streams rewind` fills it in. (templated)
    :param unasked: whether no person asks for it: a stopped stream, and a release that was refused or rolled back, are
        left alone then. (templated: `True` or `False`)

    XCom: `version`, `hash` of the release, the `release` itself as it is declared, `application` as it was asked for,
    `redeployed` (whether it is a stored one), `rewind` as it was given, `strategy`, `approval` (whether it needs a
    person's), `holder` now, `findings` (what was warned of, a text each).
    Later tasks go by this, not by form or YAML, which may have been edited by then.
    """

    template_fields: Sequence[str] = (
        *ReleaseOperator.template_fields,
        "room",
        "strategy",
        "stored",
        "rewind",
        "unasked",
    )

    def __init__(
        self,
        *,
        room: bool | str = True,
        strategy: str = "",
        stored: str = "",
        rewind: str = "",
        unasked: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.unasked = unasked
        self.room = room
        self.strategy = strategy
        self.stored = stored
        self.rewind = rewind

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        # Imported here: parsing a DAG file needs neither notifiers nor clients.
        from airflow_stream_provider.hooks.compare import refuse_unasked
        from airflow_stream_provider.hooks.lag import check_kafka
        from airflow_stream_provider.hooks.look_ahead import stored_release
        from airflow_stream_provider.hooks.preflight import preflight, refuse
        from airflow_stream_provider.monitoring.recipients import recipient
        from airflow_stream_provider.planning.operation import check_reason
        from airflow_stream_provider.planning.steps import TaskIdentity
        from airflow_stream_provider.spec.stream import Strategy

        identity = TaskIdentity.of(context)
        try:
            requested = self.requested
            if self.reason:
                check_reason(self.reason)
            if not self.stored:
                requested.check()
            strategy = self.stream.chosen_strategy(self.strategy)
            for each in self.stream.notify:
                recipient(each.call, each.arguments)
            self.hook.create()
            snapshot = self.hook.observe()
            self._leave_links(context, identity, snapshot)
            if str(self.unasked) == "True":
                refuse_unasked(self.hook, snapshot.state, self.stream, identity.run, self.stored)
            if self.stream.kafka:
                check_kafka(self.stream.kafka)
            stored = stored_release(self.hook, snapshot.state, self.stored) if self.stored else None
            self._check_rewind(stored, snapshot, identity)
            findings = refuse(preflight(self.hook, requested, snapshot, stored))
            release = stored or self.hook.releases.publish(requested)
            one = strategy is Strategy.RESTART or not snapshot.holding
            warm = (snapshot.state.deployments[each].declared for each in snapshot.live_deployments())
            crowded = any(not each.by.startswith(identity.run) for each in warm)
            self._check_room(release, crowded=crowded, one=one)
        except StreamError as error:
            # No retries: a person waits for the answer.
            raise AirflowFailException(str(error)) from error
        for finding in findings:
            self.log.warning("%s", finding)
        return {
            "stream": self.stream.name,
            "version": release.version,
            "hash": release.hash,
            "release": release.to_json(),
            "application": release.application if self.stored else requested.application,
            "redeployed": bool(self.stored),
            "rewind": self.rewind,
            "strategy": strategy.value,
            "approval": self.stream.upgrade.approval,
            "holder": snapshot.holding,
            "findings": findings,
        }

    def _check_rewind(self, stored: Release | None, snapshot: Snapshot, identity: TaskIdentity) -> None:
        """Check that what is to be read again is well-formed, and that it is still wanted.

        :raises StreamError: it is not, or another driver holds.
        """
        from airflow_stream_provider.planning.rewind import read_rewind, refuse_another_holder

        if read_rewind(self.rewind) is None:
            return
        if stored is None:
            raise SpecError(
                "Records are read again by a stored release alone, and none is named.",
                next_step="Use `airflow streams rewind`, or the operation `rewind` of the form.",
            )
        refuse_another_holder(self.rewind, snapshot.state, identity)

    def _check_room(self, release: Release, *, crowded: bool, one: bool) -> None:
        try:
            self.hook.check_room(release, deployment_id(self.stream.name, release.version, "check"))
        except ClusterError as error:
            full = any(name.startswith("free_") for name in error.fields)
            if not full or (str(self.room) == "True" and not crowded):
                raise error if one or not full else self._proposing_restart(error) from error
            self.log.info("No room yet: %s", error.message)

    def _proposing_restart(self, error: ClusterError) -> ClusterError:
        """Return the error of a cluster without room for two, which may have room for one after the other."""
        where = f"write `upgrade.strategy: restart` into {self.stream.source.name}, and trigger again"
        if not self.stream.upgrade.approval:
            where = "trigger again with the strategy `restart`"
        return ClusterError(
            error.message,
            next_step=f"{error.next_step} Or {where}: the old release is stopped first, and the stream stands still "
            "until the new one is up.",
            **error.fields,
        )
