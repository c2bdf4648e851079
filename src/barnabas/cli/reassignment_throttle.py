"""The throttle of a reassignment (KIP-73): a rate of the brokers, for replicas that the topics name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from barnabas.cli.reassignment_plan import Assignment
    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
    from barnabas.protocol.topic_partition import TopicPartition

_LEADER = "leader.replication.throttled."
_FOLLOWER = "follower.replication.throttled."


def throttle(
    admin: AdminClient, sources: Mapping[TopicPartition, Collection[int]], targets: Assignment, rate: int
) -> None:
    """Limit the copies from `sources` to the brokers that are new among `targets`, in bytes a second and broker."""
    from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
    from barnabas.protocol.kinds import OpType

    readers: dict[str, list[str]] = {}
    writers: dict[str, list[str]] = {}
    involved: set[int] = set()
    for key, replicas in targets.items():
        coming = [broker for broker in replicas if broker not in sources[key]]
        if coming:
            readers.setdefault(key.topic, []).extend(f"{key.partition}:{broker}" for broker in coming)
            writers.setdefault(key.topic, []).extend(f"{key.partition}:{broker}" for broker in sources[key])
            involved.update(coming, sources[key])
    changes: dict[ConfigResource, list[AlterConfigOp]] = {
        ConfigResource.topic(topic): [
            AlterConfigOp(f"{_LEADER}replicas", ",".join(writers[topic]), OpType.APPEND),
            AlterConfigOp(f"{_FOLLOWER}replicas", ",".join(readers[topic]), OpType.APPEND),
        ]
        for topic in readers
    }
    for broker in involved:
        rates = [AlterConfigOp(f"{kind}rate", rate) for kind in (_LEADER, _FOLLOWER)]
        changes[ConfigResource.broker(broker)] = rates
    if changes:
        admin.incremental_alter_configs(changes)


def remove_throttle(admin: AdminClient, topics: Iterable[str]) -> bool:
    """Take the throttle from topics and from all brokers; gives whether one of the topics had one."""
    from barnabas.client.admin.configs import ConfigResource
    from barnabas.protocol.kinds import ConfigSource

    replicas = (f"{_LEADER}replicas", f"{_FOLLOWER}replicas")
    found = admin.describe_configs([ConfigResource.topic(topic) for topic in topics], raise_errors=False)
    changes: dict[ConfigResource, dict[str, None]] = {}
    for resource, entries in found.items():
        names = [n for n in replicas if n in entries and entries[n].source == ConfigSource.DYNAMIC_TOPIC_CONFIG]
        if names:
            changes[resource] = dict.fromkeys(names)
    if changes:
        # Taking away what is not there is no error, and spares asking every broker.
        for node in admin.describe_cluster().nodes:
            changes[ConfigResource.broker(node.id)] = dict.fromkeys((f"{_LEADER}rate", f"{_FOLLOWER}rate"))
        admin.incremental_alter_configs(changes)
    return bool(changes)
