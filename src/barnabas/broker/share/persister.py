"""The port through which share-partitions keep their state (Kafka's Persister)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.protocol.kafka_uuid import from_text, to_text

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.errors import KafkaError

#: In place of a start offset: consumption has not begun, `share.auto.offset.reset` decides where it does.
UNINITIALIZED_START_OFFSET = -1
#: In place of a count of offsets: not known.
UNINITIALIZED_COUNT = -1
#: In place of an epoch: not checked.
ANY_EPOCH = -1


class SharePartitionKey(NamedTuple):
    """A partition of a topic, as a group shares it."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """Under which name the share coordinator knows it."""
        return f"{self.group_id}:{to_text(self.topic_id)}:{self.partition}"

    @classmethod
    def parse(cls, text: str) -> SharePartitionKey:
        """Return what a coordinator key names. Raises ValueError."""
        group_id, topic_id, partition = text.rsplit(":", 2)
        if not group_id.strip():
            raise ValueError(f"{text!r} names no group")
        return cls(group_id, from_text(topic_id), int(partition))


class StateBatch(NamedTuple):
    """Records of one state, as it is stored (PersisterStateBatch); `delivery_state` is a `RecordState`."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class SharePartitionState(NamedTuple):
    """What is stored of a share-partition."""

    state_epoch: int
    start_offset: int
    state_batches: Sequence[StateBatch]


class StateSummary(NamedTuple):
    """How far a share-partition is."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class StateUpdate(NamedTuple):
    """What is to be stored of a share-partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: Sequence[StateBatch]


#: Called with None when something is stored for good, else with why it is not.
Tell = Callable[["KafkaError | None"], None]
#: Topic id → partition → start offset.
StartOffsets = Mapping[bytes, Mapping[int, int]]


class Persister(Protocol):
    """Where the state of share-partitions is kept. All answers come by a callback, perhaps before the call returns."""

    def initialize(self, group_id: str, state_epoch: int, offsets: StartOffsets, at: Instant, tell: Tell) -> None:
        """Begin share-partitions anew at these offsets; `tell` gets the first error where there is one."""

    def read(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        at: Instant,
        tell: Callable[[SharePartitionState | KafkaError], None],
    ) -> None:
        """Give what is stored, and note who leads the partition now."""

    def write(self, key: SharePartitionKey, update: StateUpdate, at: Instant, tell: Tell) -> None:
        """Store a change."""

    def delete(self, group_id: str, partitions: Mapping[bytes, Sequence[int]], at: Instant, tell: Tell) -> None:
        """Forget share-partitions; `tell` gets the first error where there is one."""

    def read_summary(
        self, key: SharePartitionKey, at: Instant, tell: Callable[[StateSummary | KafkaError], None]
    ) -> None:
        """Give how far a share-partition is."""
