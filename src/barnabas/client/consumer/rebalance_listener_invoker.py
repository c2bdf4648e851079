"""Calls the application's rebalance listener."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.client.consumer.steps import Steps, call
from barnabas.errors import KafkaError, WakeupError
from barnabas.network.log_context import client_logger

if TYPE_CHECKING:
    from barnabas.client.consumer.subscription_state import SubscriptionState
    from barnabas.protocol.topic_partition import TopicPartition

log = client_logger("barnabas.consumer")

_NO_LISTENER = ConsumerRebalanceListener()


class ConsumerRebalanceListenerInvoker:
    """Runs callbacks on the application's thread and keeps their first error until the rebalance step is over.

    On an event loop they may be coroutines.
    """

    def __init__(self, subscriptions: SubscriptionState) -> None:
        self._subscriptions = subscriptions
        self._first_error: Exception | None = None
        self.is_running = False

    def assigned(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Tell of new partitions."""
        yield from self._run(self._listener.on_partitions_assigned, sorted(partitions))

    def revoked(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Tell of partitions to give up."""
        yield from self._run(self._listener.on_partitions_revoked, sorted(partitions))

    def lost(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Tell of partitions that are gone."""
        yield from self._run(self._listener.on_partitions_lost, sorted(partitions))

    def call(self, function: Callable[[], object]) -> Steps[None]:
        """Run other code of the application under the same rule."""
        yield from self._run(lambda _: function(), ())

    def raise_first_error(self) -> None:
        """Raise what the first failing callback raised: a `KafkaError` as it is, anything else inside one."""
        error, self._first_error = self._first_error, None
        if error is None:
            return
        if isinstance(error, KafkaError):
            raise error
        raise KafkaError(
            f"The rebalance listener raised {type(error).__name__}: {error}. The rebalance itself went through"
        ) from error

    @property
    def _listener(self) -> ConsumerRebalanceListener:
        return self._subscriptions.rebalance_listener or _NO_LISTENER

    def _run(
        self, callback: Callable[[Collection[TopicPartition]], object], partitions: Collection[TopicPartition]
    ) -> Steps[None]:
        self.is_running = True
        try:
            yield from call(callback, partitions)
        except WakeupError as error:
            self._first_error = self._first_error or error
        except Exception as error:
            log.exception("The rebalance listener failed for %s", partitions)
            self._first_error = self._first_error or error
        finally:
            self.is_running = False
