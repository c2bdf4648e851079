"""The clients of barnabas for asyncio: the same names and the same cores, without threads.

Rule 1. **The cores are those of `barnabas.client`**; here is how an event loop drives them. All of a client, its cores
included, belongs to its loop's thread; others reach it by `wakeup()` and `asyncio.run_coroutine_threadsafe`.

Rule 2. **Calls that wait are `Steps`**, written once in the client's room; a coroutine here drives them. A new call of
the consumer or the admin client costs one line.

Rule 3. **Cancelling loses and doubles nothing**: nothing is awaited between taking a record and returning its future,
nor between taking records out of the fetcher and returning them (`consumer_calls`).

Rule 4. **A turn does not hold the loop up**: after half a megabyte of new batches, or a few milliseconds, the loop has
its turn.

`LoopPort` wraps a `Selectable`: its `poll` never waits and notes how long it would have; `fileno()` of the `Selector`,
one descriptor for all its sockets, is what the loop watches (`network.bound_loop`). `LoopDriver` makes the turns of a
core that works by itself: when the descriptor is readable, when it is woken, when its one timer ends. `LoopWaiter` is
where the calls of a consumer and an admin client wait; outside of calls nothing is read. `LoopUse` and its like refuse
another thread or loop in words. The loop's `Environment` has its clock, its random numbers and its way to the network;
a simulator brings its own (tests/support/virtual_loop.py).

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
    from barnabas.aio.share_consumer import ShareConsumer
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
    "ShareConsumer",
    "TopicPartition",
    "Transaction",
]

_HOMES = {
    "barnabas.aio.admin_client": "AdminClient",
    "barnabas.aio.consumer": "Consumer",
    "barnabas.aio.consumer_rebalance_listener": "ConsumerRebalanceListener",
    "barnabas.aio.environment": "LoopEnvironment",
    "barnabas.aio.producer": "Producer",
    "barnabas.aio.share_consumer": "ShareConsumer",
    "barnabas.aio.transaction": "Transaction",
    "barnabas.client.admin.new_topic": "NewTopic",
    "barnabas.protocol.topic_partition": "TopicPartition",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
