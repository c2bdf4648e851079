"""The clients of barnabas for asyncio: the same names and the same cores, without threads.

The public names load on first use, as those of `barnabas` do.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.aio.admin_client import AdminClient as AdminClient
    from barnabas.aio.consumer import Consumer as Consumer
    from barnabas.aio.consumer_rebalance_listener import ConsumerRebalanceListener as ConsumerRebalanceListener
    from barnabas.aio.environment import Environment as Environment
    from barnabas.aio.producer import Producer as Producer
    from barnabas.client.admin.new_topic import NewTopic as NewTopic
    from barnabas.protocol.topic_partition import TopicPartition as TopicPartition

_HOMES = {
    "AdminClient": "barnabas.aio.admin_client",
    "Consumer": "barnabas.aio.consumer",
    "ConsumerRebalanceListener": "barnabas.aio.consumer_rebalance_listener",
    "Environment": "barnabas.aio.environment",
    "NewTopic": "barnabas.client.admin.new_topic",
    "Producer": "barnabas.aio.producer",
    "TopicPartition": "barnabas.protocol.topic_partition",
}

__all__ = [
    "AdminClient",
    "Consumer",
    "ConsumerRebalanceListener",
    "Environment",
    "NewTopic",
    "Producer",
    "TopicPartition",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'barnabas.aio' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
