"""What server-side assignors get and give (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.broker.groups.consumer_group_member import Partitions


class MemberSpec(NamedTuple):
    """One member: the topics it subscribes to, and what the last target assignment gave it."""

    instance_id: str | None
    topic_ids: frozenset[bytes]
    target: Partitions


#: Member id → member.
Members = Mapping[str, MemberSpec]
#: Topic id → how many partitions it has; every topic that a member subscribes to is in it.
PartitionCounts = Mapping[bytes, int]
#: Gives every member its partitions: each partition of each topic to exactly one of the topic's subscribers.
Assignor = Callable[[Members, PartitionCounts], dict[str, Partitions]]
