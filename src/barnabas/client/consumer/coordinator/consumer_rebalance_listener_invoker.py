"""Calls the application's rebalance listener."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from barnabas.client.consumer.consumer_metrics import ASSIGNED, LOST, REVOKED
from barnabas.client.steps import Steps, call
from barnabas.errors import KafkaError, WakeupError
from barnabas.network.log_context import client_logger

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_metrics import RebalanceMetrics
    from barnabas.client.consumer.subscription_state import SubscriptionState
    from barnabas.protocol.topic_partition import TopicPartition

log = client_logger("barnabas.consumer")


class ConsumerRebalanceListenerInvoker:
    """Runs callbacks on the application's thread and keeps their first error until the rebalance step is over.

    On an event loop they may be coroutines.
    """

    def __init__(self, subscriptions: SubscriptionState, metrics: RebalanceMetrics) -> None:
        self._metrics = metrics
        self._subscriptions = subscriptions
        self._first_error: Exception | None = None
        self.is_running = False

    def invoke_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Tell of new partitions."""
        yield from self._listen(ASSIGNED, "on_partitions_assigned", partitions)

    def invoke_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Tell of partitions to give up."""
        yield from self._listen(REVOKED, "on_partitions_revoked", partitions)

    def invoke_partitions_lost(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Tell of partitions that are gone."""
        yield from self._listen(LOST, "on_partitions_lost", partitions)

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

    def _listen(self, kind: str, method: str, partitions: Iterable[TopicPartition]) -> Steps[None]:
        listener = self._subscriptions.rebalance_listener
        if listener is not None:
            with self._metrics.listening(kind):
                yield from self._run(getattr(listener, method), sorted(partitions))

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
