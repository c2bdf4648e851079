"""The clients of barnabas for asyncio: the same names and the same cores, without threads.

The public names load on first use, as those of `barnabas` do.
"""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.aio.admin_client import AdminClient
    from barnabas.aio.consumer import Consumer
    from barnabas.aio.consumer_rebalance_listener import ConsumerRebalanceListener
    from barnabas.aio.environment import LoopEnvironment
    from barnabas.aio.producer import Producer
    from barnabas.aio.transaction import Transaction
    from barnabas.client.admin.new_topic import NewTopic
    from barnabas.protocol.topic_partition import TopicPartition

__all__ = [
    "AdminClient",
    "Consumer",
    "ConsumerRebalanceListener",
    "LoopEnvironment",
    "NewTopic",
    "Producer",
    "TopicPartition",
    "Transaction",
]

_HOMES = {
    "barnabas.aio.admin_client": "AdminClient",
    "barnabas.aio.consumer": "Consumer",
    "barnabas.aio.consumer_rebalance_listener": "ConsumerRebalanceListener",
    "barnabas.aio.environment": "LoopEnvironment",
    "barnabas.aio.producer": "Producer",
    "barnabas.aio.transaction": "Transaction",
    "barnabas.client.admin.new_topic": "NewTopic",
    "barnabas.protocol.topic_partition": "TopicPartition",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
