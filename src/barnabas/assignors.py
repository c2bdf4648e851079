"""How the members of a classic group share partitions: Kafka's assignors, and the class for one of your own."""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.client.consumer.assignors.consumer_partition_assignor import (
        COOPERATIVE,
        EAGER,
        Assignment,
        ConsumerPartitionAssignor,
        PartitionRacks,
        Subscription,
    )
    from barnabas.client.consumer.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
    from barnabas.client.consumer.assignors.range_assignor import RangeAssignor
    from barnabas.client.consumer.assignors.round_robin_assignor import RoundRobinAssignor
    from barnabas.client.consumer.assignors.sticky_assignor import StickyAssignor

__all__ = [
    "COOPERATIVE",
    "EAGER",
    "Assignment",
    "ConsumerPartitionAssignor",
    "CooperativeStickyAssignor",
    "PartitionRacks",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
]

_HOMES = {
    "barnabas.client.consumer.assignors.consumer_partition_assignor": (
        "Assignment COOPERATIVE ConsumerPartitionAssignor EAGER PartitionRacks Subscription"
    ),
    "barnabas.client.consumer.assignors.cooperative_sticky_assignor": "CooperativeStickyAssignor",
    "barnabas.client.consumer.assignors.range_assignor": "RangeAssignor",
    "barnabas.client.consumer.assignors.round_robin_assignor": "RoundRobinAssignor",
    "barnabas.client.consumer.assignors.sticky_assignor": "StickyAssignor",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
