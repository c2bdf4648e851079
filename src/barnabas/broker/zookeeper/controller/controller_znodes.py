"""The znodes that only controllers write or follow, and what stands in them (ZkData of Apache Kafka 3.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.zookeeper.znodes import MalformedZnodeError, decode, encode
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTROLLER, CONTROLLER_EPOCH = "/controller", "/controller_epoch"
FEATURE = "/feature"
PRODUCER_IDS = "/latest_producer_id_block"
ISR_CHANGES, LOG_DIR_EVENTS = "/isr_change_notification", "/log_dir_event_notification"
#: What only tools of before 2.4 write.
PREFERRED_ELECTION, REASSIGNMENTS = "/admin/preferred_replica_election", "/admin/reassign_partitions"
LOG_DIR_EVENT_PREFIX = "log_dir_event_"
_CONTROLLER_VERSION, _FEATURE_VERSION, _ENABLED, _LOG_DIR_FAILURE = 2, 2, 1, 1
_BLOCK_SIZE = 1000
_LARGEST_ID = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    """Producer ids from `first` to `last`, both included."""

    first: int
    last: int


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    """Return what says who is controller."""
    return encode(
        {"version": _CONTROLLER_VERSION, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes | None) -> int:
    """Return the id of the controller. Raises `MalformedZnodeError`."""
    found = decode(CONTROLLER, data).get("brokerid")
    if not isinstance(found, int):
        raise MalformedZnodeError(f"the znode {CONTROLLER} does not say who is controller: {data!r}")
    return found


def decode_epoch(data: bytes | None) -> int:
    """Return the epoch of the last controller. Raises `MalformedZnodeError`."""
    try:
        return int(data or b"")
    except ValueError:
        raise MalformedZnodeError(f"the znode {CONTROLLER_EPOCH} holds no epoch: {data!r}") from None


def encode_feature() -> bytes:
    """Return what says that features are versioned, and none is finalized: 3.9 under ZooKeeper has none."""
    return encode({"features": {}, "version": _FEATURE_VERSION, "status": _ENABLED})


def next_block(broker_id: int, data: bytes | None) -> tuple[ProducerIdBlock, bytes]:
    """Return the block of producer ids that follows the last one, and what is to stand in its znode then.

    Raises `MalformedZnodeError`, also when no ids are left.
    """
    first = 0
    if data:
        try:
            first = int(decode(PRODUCER_IDS, data)["block_end"]) + 1
        except (KeyError, ValueError, TypeError) as problem:
            raise MalformedZnodeError(f"the znode {PRODUCER_IDS} holds no block of producer ids: {data!r}") from problem
    block = ProducerIdBlock(first, first + _BLOCK_SIZE - 1)
    if block.last > _LARGEST_ID:
        raise MalformedZnodeError(f"the znode {PRODUCER_IDS} has no producer ids left: {data!r}")
    value = {"version": 1, "broker": broker_id, "block_start": str(block.first), "block_end": str(block.last)}
    return block, encode(value)


def encode_log_dir_event(broker_id: int) -> bytes:
    """Return what announces that a log directory of a broker is out of service."""
    return encode({"version": 1, "broker": broker_id, "event": _LOG_DIR_FAILURE})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """Return the broker whose log directory is out of service. Raises `MalformedZnodeError`."""
    found = decode(path, data).get("broker")
    if not isinstance(found, int):
        raise MalformedZnodeError(f"the znode {path} names no broker: {data!r}")
    return found


def decode_partitions(path: str, data: bytes | None) -> list[TopicPartition]:
    """Return the partitions that a znode lists. Raises `MalformedZnodeError`."""
    return list(decode_listed(path, data))


def decode_listed(path: str, data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the partitions that a znode lists, each with the replicas that it is to have, if any are named.

    Raises `MalformedZnodeError`.
    """
    try:
        return {
            TopicPartition(str(one["topic"]), int(one["partition"])): tuple(map(int, one.get("replicas") or ()))
            for one in decode(path, data)["partitions"]
        }
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        raise MalformedZnodeError(f"the znode {path} lists no partitions: {data!r}") from problem


def encode_reassignments(wanted: Iterable[tuple[TopicPartition, tuple[int, ...]]]) -> bytes:
    """Return what lists partitions with the replicas that they are to have."""
    listed = [{"topic": name.topic, "partition": name.partition, "replicas": list(found)} for name, found in wanted]
    return encode({"version": 1, "partitions": listed})


def is_enabled(data: bytes | None) -> bool:
    """Whether `/feature` says that features are versioned. Raises `MalformedZnodeError`."""
    return decode(FEATURE, data).get("status") == _ENABLED
