"""Reads topics and settings from their znodes, as metadata records, and follows the announced changes of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.metadata.partition_registration import NO_LEADER
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.announcements import Announcements
from barnabas.broker.zookeeper.operations import (
    Children,
    Create,
    Get,
    NodeExistsError,
    NoNodeError,
    Program,
    SetData,
    Znode,
    check,
    expect,
    found_or_none,
    make_missing,
)
from barnabas.broker.zookeeper.setting_records import known_entities, setting_records
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.messages.topic_record import TopicRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from barnabas.broker.config_admin_manager import ConfigsChange
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.zookeeper.announcements import Report
    from barnabas.broker.zookeeper.entity_settings import Edits
    from barnabas.protocol.message import Message

ANNOUNCEMENTS = Announcements(znodes.CONFIG_CHANGES, "config_change_", znodes.decode_config_change)
#: Before a controller has said anything of a partition.
UNKNOWN_EPOCH = -1


class Change(NamedTuple):
    """An entity with settings, such as `topics/flights`, and what its znode has; None: it has none."""

    entity: str
    values: dict[str, str] | None


class ClusterZnodes(NamedTuple):
    """What stands in ZooKeeper when a broker starts; `last_change` is the number of the last notification."""

    cluster_id: str
    topics: dict[str, znodes.TopicZnode]
    settings: Sequence[Change]
    last_change: int


def prepare(wanted_cluster_id: str) -> Program[str]:
    """Make the znodes that have to be there, and return the cluster's id: the wanted one where there was none."""
    yield from make_missing((*znodes.PERSISTENT, znodes.CLUSTER_ID.rpartition("/")[0]))
    (made,) = yield [Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(wanted_cluster_id))]
    if not isinstance(made, NodeExistsError):
        check(made)
        return wanted_cluster_id
    (found,) = yield [Get(znodes.CLUSTER_ID)]
    return znodes.decode_cluster_id(expect(found, Znode).data)


def read_cluster(cluster_id: str, report: Report) -> Program[ClusterZnodes]:
    """Read topics and settings. Changes of settings are watched from before they are read, so none is missed."""
    last = yield from ANNOUNCEMENTS.watch()
    settings = yield from _read_entities(report)
    (names,) = yield [Children(znodes.TOPICS)]
    names = expect(names, list)
    found = yield [Get(znodes.topic_path(name)) for name in names]
    topics = {}
    for name, result in zip(names, found, strict=True):
        znode = found_or_none(result)
        if znode is not None:
            topics[name] = znodes.decode_topic(znodes.topic_path(name), znode.data)
    return ClusterZnodes(cluster_id, topics, settings, last)


def _read_entities(report: Report) -> Program[list[Change]]:
    entities: list[str] = []
    listed = yield [Children(f"{znodes.CONFIG}/{kind}") for kind in znodes.CONFIG_TYPES]
    for kind, names in zip(znodes.CONFIG_TYPES, listed, strict=True):
        if not isinstance(names, NoNodeError):
            entities += [f"{kind}/{name}" for name in expect(names, list)]
    users = [entity for entity in entities if entity.startswith("users/")]
    listed = yield [Children(f"{znodes.CONFIG}/{user}/clients") for user in users]
    for user, names in zip(users, listed, strict=True):
        if not isinstance(names, NoNodeError):
            entities += [f"{user}/clients/{name}" for name in expect(names, list)]
    return (yield from read_settings(entities, report))


def read_settings(entities: Sequence[str], report: Report) -> Program[list[Change]]:
    """Read the settings of entities, those without any included.

    `report` is told of what is no settings: an entity with that has none, as for Apache Kafka.
    """
    paths = [f"{znodes.CONFIG}/{entity}" for entity in entities]
    found = yield [Get(path) for path in paths]
    changes = []
    for entity, path, result in zip(entities, paths, found, strict=True):
        znode = found_or_none(result)
        try:
            changes.append(Change(entity, None if znode is None else znodes.decode_config(path, znode.data)))
        except znodes.MalformedZnodeError as problem:
            report(problem)
            changes.append(Change(entity, {}))
    return changes


def written(change: ConfigsChange) -> Change:
    """Return what is to stand in a znode. Raises `InvalidRequestError` for what has no place there."""
    if change.kind not in ("topics", "brokers"):
        raise errors.InvalidRequestError(f"Settings of {change.kind} are not kept in ZooKeeper.")
    name = change.name if change.kind == "topics" else znodes.sanitized(change.name or None)
    return Change(f"{change.kind}/{name}", dict(change.configs))


def write_settings(changes: Sequence[Change]) -> Program[list[Change]]:
    """Write the settings of entities and announce each; an entity without a znode gets one."""
    for entity, values in changes:
        path, data = f"{znodes.CONFIG}/{entity}", znodes.encode_config(values or {})
        (result,) = yield [SetData(path, data)]
        if isinstance(result, NoNodeError):
            (result,) = yield [Create(path, data)]
            if isinstance(result, NodeExistsError):
                (result,) = yield [SetData(path, data)]
        check(result)
        yield from announce([entity])
    return list(changes)


def announce(entities: Iterable[str]) -> Program[None]:
    """Tell all brokers that the settings of entities have changed, one after the other."""
    return ANNOUNCEMENTS.announce(map(znodes.encode_config_change, entities))


def edit_settings(edits: Sequence[Edits]) -> Program[list[Change]]:
    """Change some settings of entities, and announce each; all that an entity has besides stays."""
    changes = []
    for entity, values in edits:
        (found,) = yield from read_settings([entity], znodes.refuse)
        merged = {**(found.values or {}), **values}
        changes.append(Change(entity, {name: value for name, value in merged.items() if value is not None}))
        yield from _make_parents(entity)
        yield from write_settings(changes[-1:])
    return changes


def _make_parents(entity: str) -> Program[None]:
    """Make the znodes above that of an entity: `users/alice` and `users/alice/clients` for one of its clients."""
    parts = entity.split("/")
    yield from make_missing(f"{znodes.CONFIG}/{'/'.join(parts[:count])}" for count in range(2, len(parts)))


def read_changes(after: int, report: Report) -> Program[tuple[list[Change], int]]:
    """Read what was announced after a notification's number; returns the settings, and the last number.

    `report` is told of what announces nothing; see `read_settings`.
    """
    entities, last = yield from ANNOUNCEMENTS.read(after, report)
    return (yield from read_settings(entities, report)), last


def read_topic_names() -> Program[list[str]]:
    """Read which topics there are; none is missing that was there when this was asked for, on any server.

    A server may be behind with reads; it is not after a write of the same session, though that changes nothing.
    """
    yield from make_missing([znodes.TOPICS])
    (names,) = yield [Children(znodes.TOPICS)]
    return expect(names, list)


def gone_records(image: MetadataImage, topics: Collection[str], known: Collection[bytes]) -> Iterable[Message]:
    """Give the records with which an image loses those of its topics that are not there, of those known before.

    A controller tells only brokers that it takes for alive. What has come meanwhile may be later than what was read.
    """
    for name, topic_id in image.topic_ids.items():
        if topic_id in known and name not in topics:
            yield RemoveTopicRecord(topic_id=topic_id)


def cluster_records(image: MetadataImage, found: ClusterZnodes, report: Report) -> Iterable[Message]:
    """Give the records with which an image has the topics and settings that were read.

    A topic that the image has already, by what a controller said, stays as it is.
    """
    for name, topic in found.topics.items():
        if topic.topic_id is None or name in image.topic_ids:
            continue
        yield TopicRecord(name=name, topic_id=topic.topic_id)
        for index, replicas in topic.replicas.items():
            yield PartitionRecord(
                topic_id=topic.topic_id,
                partition_id=index,
                replicas=list(replicas),
                leader=NO_LEADER,
                leader_epoch=UNKNOWN_EPOCH,
                partition_epoch=UNKNOWN_EPOCH,
                adding_replicas=list(topic.adding.get(index, ())),
                removing_replicas=list(topic.removing.get(index, ())),
            )
    read = {change.entity for change in found.settings}
    gone = [Change(entity, None) for entity in known_entities(image) if entity not in read]
    yield from settings_records(image, [*gone, *found.settings], report)


def settings_records(image: MetadataImage, changes: Iterable[Change], report: Report) -> Iterable[Message]:
    """Give the records with which an image has settings as they are now.

    An entity with a value that Kafka does not write keeps those that it has in the image, and `report` is told.
    """
    for entity, values in changes:
        try:
            yield from list(setting_records(image, entity, values or {}))
        except znodes.MalformedZnodeError as problem:
            report(problem)
