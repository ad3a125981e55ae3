"""All that is used of kafka-python's admin client beside its public methods, so that an upgrade has one file to break.

Each name here is used by a test against a real broker (tests/integration/kafka/test_internals.py). How a client is
opened, in `kafka.connect`, replaces two of kafka-python's classes; test_client.py and test_security.py open clients.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

T = TypeVar("T")


class Internals:
    """kafka-python's own thread, its connections, and its requests. Everything but `run` is for that thread."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self._admin = admin
        self._manager = admin._manager

    def run(self, call: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run a coroutine in kafka-python's thread and wait for its result."""
        answer: T = self._manager.run(call, *args)
        return answer

    def soon(self, call: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """Start a coroutine, to wait for its result later."""
        answer: Awaitable[Any] = self._manager.call_soon(call, *args)
        return answer

    async def sleep(self, seconds: float) -> None:
        """Pause a coroutine."""
        await self._manager._net.sleep(seconds)

    async def send(self, request: Any, node: int | None, seconds: float | None = None) -> Any:
        """Send a request to a broker; None: the one with the fewest requests under way.

        A broker whose quota throttles this client names a time without requests: that is waited for first.

        :param seconds: after which the broker has not answered (RequestTimedOutError), and for which a quota is waited
            for (ThrottlingQuotaExceededError: nothing was sent); default the connection's.
        """
        from kafka.errors import ThrottlingQuotaExceededError

        until = time.monotonic() + (self.seconds if seconds is None else seconds)
        while pause := self._throttled(node):
            if time.monotonic() + pause > until:
                raise ThrottlingQuotaExceededError(f"for another {pause:.1f} s")
            await self.sleep(pause)
        milliseconds = None if seconds is None else round(seconds * 1000)
        return await self._manager.send(request, node_id=node, request_timeout_ms=milliseconds)

    def _throttled(self, node: int | None) -> float:
        """Return for how many seconds a quota keeps kafka-python from sending to a broker; None: to any broker."""
        now = time.monotonic()
        connections = [self._manager._conns.get(each) for each in (self.brokers() if node is None else [node])]
        # Its timer may be late.
        pauses = (
            max(each._throttle_time - now, 0.01) if each is not None and "throttle" in each.paused else 0.0
            for each in connections
        )
        return min(pauses, default=0.0)

    def brokers(self) -> list[int]:
        """Return the ids of the brokers that are known."""
        return sorted(broker.node_id for broker in self._manager.cluster.brokers())

    def any_broker(self) -> int | None:
        """Return the broker with the fewest requests under way; None when none can be connected to now."""
        node: int | None = self._manager.least_loaded_node()
        return node

    async def refresh_brokers(self) -> None:
        """Learn which brokers there are."""
        await self._manager.cluster.refresh_metadata()

    def version_without(self, request: Any) -> str:
        """Return the version of Kafka, such as ``3.0``, if it does not know a request; empty if it does.

        It is that of the broker that was connected to first.
        """
        from kafka.errors import IncompatibleBrokerVersion

        known = self._manager.broker_version_data
        try:
            known.api_version(request)
        except IncompatibleBrokerVersion:
            return str(known.broker_version_str)
        return ""

    @property
    def seconds(self) -> float:
        """The time after which a broker has not answered, by the connection's settings."""
        return float(self._admin.config["request_timeout_ms"]) / 1000
