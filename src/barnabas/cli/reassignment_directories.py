"""The directories that a plan names for replicas: asked for, shown, cancelled (AlterReplicaLogDirs, KIP-113)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from barnabas.errors import ReplicaNotAvailableError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.log_dirs import ReplicaLogDirInfo, TopicPartitionReplica
    from barnabas.errors import KafkaError

#: The directories of replicas.
Directories = dict["TopicPartitionReplica", str]
#: How long brokers are asked for replicas that only come to them, in seconds; and how often.
_PATIENCE, _PAUSE = 10.0, 0.1


def move_logs(
    admin: AdminClient, wanted: Mapping[TopicPartitionReplica, str], pause: Callable[[float], object] = time.sleep
) -> list[KafkaError]:
    """Have replicas lie in these directories, or be made there; returns what failed.

    A broker that has no such replica yet remembers the directory; it is asked again until it has the replica there.
    """
    failed: list[KafkaError] = []
    early: list[KafkaError] = []
    for attempt in range(round(_PATIENCE / _PAUSE)):
        if attempt:
            pause(_PAUSE)
        asked, errors = wanted, admin.alter_replica_log_dirs(wanted, raise_errors=False).errors if wanted else {}
        wanted = {replica: asked[replica] for replica, e in errors.items() if isinstance(e, ReplicaNotAvailableError)}
        said = {replica: type(e)(f"{e} (asked for {asked[replica]})") for replica, e in errors.items()}
        failed += [problem for replica, problem in said.items() if replica not in wanted]
        early = [said[replica] for replica in wanted]
        if not early:
            break
    return failed + early


def directories_now(admin: AdminClient, replicas: Collection[TopicPartitionReplica]) -> Directories:
    """Return where replicas lie; those that are with no broker are left out."""
    found = _described(admin, replicas).items()
    return {replica: place.current_log_dir for replica, place in found if place.current_log_dir is not None}


def states(admin: AdminClient, wanted: Mapping[TopicPartitionReplica, str]) -> dict[TopicPartition, str]:
    """Return the partitions that lie elsewhere than they should: `moving`, or `elsewhere` if nothing brings them."""
    found: dict[TopicPartition, str] = {}
    described = _described(admin, wanted)
    for replica, directory in wanted.items():
        place = described.get(replica)
        if place is not None and place.current_log_dir == directory and place.future_log_dir is None:
            continue
        is_moving = place is not None and place.future_log_dir == directory
        name = TopicPartition(replica.topic, replica.partition)
        found[name] = "moving" if is_moving and found.get(name) != "elsewhere" else "elsewhere"
    return found


def cancel_moves(
    admin: AdminClient, wanted: Collection[TopicPartitionReplica]
) -> tuple[list[TopicPartition], list[KafkaError]]:
    """Leave replicas that are on their way to other directories where they are; returns theirs, and what failed."""
    back: Directories = {
        replica: place.current_log_dir
        for replica, place in _described(admin, wanted).items()
        if place.future_log_dir is not None and place.current_log_dir is not None
    }
    cancelled = {TopicPartition(replica.topic, replica.partition) for replica in back}
    return sorted(cancelled), move_logs(admin, back)


def _described(
    admin: AdminClient, replicas: Collection[TopicPartitionReplica]
) -> Mapping[TopicPartitionReplica, ReplicaLogDirInfo]:
    return admin.describe_replica_log_dirs(replicas, raise_errors=False) if replicas else {}
