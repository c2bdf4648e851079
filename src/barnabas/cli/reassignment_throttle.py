"""The throttles of a reassignment.

Between brokers (KIP-73) it is a rate of theirs, for replicas that the topics name; between the directories of a broker
(KIP-113) another rate, for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from barnabas.cli.reassignment_plan import Assignment
    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
    from barnabas.protocol.kinds import ConfigSource
    from barnabas.protocol.topic_partition import TopicPartition

_DIRECTORIES_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
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


def throttle_directories(admin: AdminClient, brokers: Iterable[int], rate: int) -> None:
    """Limit what each broker copies from one of its directories to another, in bytes a second."""
    from barnabas.client.admin.configs import ConfigResource

    changes = {ConfigResource.broker(broker): {_DIRECTORIES_RATE: rate} for broker in brokers}
    if changes:
        admin.incremental_alter_configs(changes)


def remove_throttle(admin: AdminClient, topics: Iterable[str], brokers: Iterable[int]) -> bool:
    """Take the throttles from topics and from all brokers.

    Gives whether one of the topics had one, or one of `brokers` one between its directories.
    """
    from barnabas.client.admin.configs import ConfigResource

    asked = [*map(ConfigResource.topic, topics), *map(ConfigResource.broker, brokers)]
    found = admin.describe_configs(asked, raise_errors=False)
    changes: dict[ConfigResource, dict[str, None]] = {}
    for resource, entries in found.items():
        names = [name for name, source in _set_by_name() if name in entries and entries[name].source == source]
        if names:
            changes[resource] = dict.fromkeys(names)
    if changes:
        # Taking away what is not there is no error, and spares asking every broker.
        for node in admin.describe_cluster().nodes:
            rates = (f"{_LEADER}rate", f"{_FOLLOWER}rate", _DIRECTORIES_RATE)
            changes[ConfigResource.broker(node.id)] = dict.fromkeys(rates)
        admin.incremental_alter_configs(changes)
    return bool(changes)


def _set_by_name() -> list[tuple[str, ConfigSource]]:
    """Return the settings that tell of a throttle, with what it means that one is set."""
    from barnabas.protocol.kinds import ConfigSource

    return [
        (f"{_LEADER}replicas", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        (f"{_FOLLOWER}replicas", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        (_DIRECTORIES_RATE, ConfigSource.DYNAMIC_BROKER_CONFIG),
    ]
