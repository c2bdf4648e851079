"""What a Fetch asks of one partition, in whose name, and what was found there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.replication.replica_selector import LEADER

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import FileRegion
    from barnabas.broker.log.transaction_index import AbortedTxn
    from barnabas.broker.partition import Partition

#: What names a partition in a session: topic name (to version 12) or topic id, and the partition's number.
FetchKey = tuple[str | bytes, int]


class FetchTarget:
    """A partition to read from, and, in a session, what the client was last told about it."""

    __slots__ = (
        "appended",
        "high_watermark",
        "index",
        "known_high_watermark",
        "known_log_start_offset",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "offset",
        "partition",
        "topic",
    )

    def __init__(self, topic: str | bytes, index: int):
        self.topic = topic
        self.index = index
        self.offset = 0
        self.max_bytes = 0
        self.leader_epoch = -1
        self.last_fetched_epoch = -1
        self.log_start_offset = -1
        self.high_watermark = -1
        self.partition: Partition | None = None
        self.known_high_watermark = -1
        self.known_log_start_offset = -1
        #: What the partition had (`Partition.appended`) when it became quiet, see `QuietPartitions`.
        self.appended = 0


class FetchingReplica(NamedTuple):
    """The follower that fetches: its broker, in which epoch of its registration, and when it asked (epoch ms)."""

    broker_id: int
    broker_epoch: int
    now_ms: int


class PartitionRead(NamedTuple):
    """What was found in one partition; `diverging` is (epoch, end offset) where the reader's history is not ours.

    `records` are whole batches; `available` counts a cut one, too. `preferred` is the broker to read from instead, -1
    for none.
    """

    target: FetchTarget
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: bytes | FileRegion
    available: int
    aborted: list[AbortedTxn] | None
    diverging: tuple[int, int] | None
    preferred: int = LEADER
