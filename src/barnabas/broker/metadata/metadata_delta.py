"""What records change of an image (MetadataDelta): they are replayed, then there is another image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.broker.metadata.metadata_image import (
    BrokerRegistration,
    ControllerRegistration,
    Endpoint,
    MetadataImage,
    TopicImage,
)
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.errors import IllegalStateError
from barnabas.protocol.kinds import ConfigResourceType

if TYPE_CHECKING:
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.access_control_entry_record import AccessControlEntryRecord
    from barnabas.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
    from barnabas.protocol.messages.clear_elr_record import ClearElrRecord
    from barnabas.protocol.messages.client_quota_record import ClientQuotaRecord
    from barnabas.protocol.messages.config_record import ConfigRecord
    from barnabas.protocol.messages.delegation_token_record import DelegationTokenRecord
    from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord
    from barnabas.protocol.messages.fence_broker_record import FenceBrokerRecord
    from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord
    from barnabas.protocol.messages.partition_record import PartitionRecord
    from barnabas.protocol.messages.producer_ids_record import ProducerIdsRecord
    from barnabas.protocol.messages.register_broker_record import RegisterBrokerRecord
    from barnabas.protocol.messages.register_controller_record import RegisterControllerRecord
    from barnabas.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
    from barnabas.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
    from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
    from barnabas.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
    from barnabas.protocol.messages.topic_record import TopicRecord
    from barnabas.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
    from barnabas.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
    from barnabas.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

K = TypeVar("K")
V = TypeVar("V")

#: In PartitionChangeRecord: the leader stays; the recovery state stays.
NO_LEADER_CHANGE, NO_RECOVERY_CHANGE = -2, -1


class MetadataDelta:
    """Replays records upon an image, which stays as it is.

    A part of the image is copied when its first record comes, the partitions of a topic likewise, so a change costs as
    much as its topic and its part have entries, and not what the cluster has.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._parts: dict[str, Any] = {}
        self._partitions: dict[bytes, dict[int, PartitionRegistration]] = {}

    def replay(self, record: Message) -> None:
        """Take in one record. Raises `IllegalStateError` for one that does not fit to what there is."""
        replay = _REPLAY.get(record.NAME)
        if replay is not None:
            replay(self, record)

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """Return the image with all that was replayed, which now reaches to an offset."""
        if self._partitions:
            topics: dict[bytes, TopicImage] = self._part("topics")
            for topic_id, partitions in self._partitions.items():
                if topic_id in topics:
                    topics[topic_id] = topics[topic_id]._replace(partitions=partitions)
        return self._image._replace(offset=offset, epoch=epoch, **self._parts)

    def _part(self, name: str) -> dict[Any, Any]:
        found = self._parts.get(name)
        if found is None:
            found = self._parts[name] = dict(getattr(self._image, name))
        mutable: dict[Any, Any] = found
        return mutable

    # -- brokers and controllers -------------------------------------------------------------------------------------

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._part("brokers")[record.broker_id] = BrokerRegistration(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            {found.name: Endpoint(found.host, found.port, found.security_protocol) for found in record.end_points},
            {found.name: (found.min_supported_version, found.max_supported_version) for found in record.features},
            record.rack,
            record.fenced,
            record.in_controlled_shutdown,
            tuple(record.log_dirs),
            None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._part("brokers").pop(record.broker_id, None)

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        self._change_broker(record.id, record.epoch, fenced=True)

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self._change_broker(record.id, record.epoch, fenced=False)

    def _change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["directories"] = tuple(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            changes["cordoned_directories"] = tuple(record.cordoned_log_dirs)
        self._change_broker(record.broker_id, record.broker_epoch, **changes)

    def _broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        found: BrokerRegistration | None = self._part("brokers").get(broker_id)
        if found is None or found.epoch != epoch:
            raise IllegalStateError(
                f"a metadata record changes broker {broker_id} of epoch {epoch}; known is {found or 'none'}"
            )
        return found

    def _change_broker(self, broker_id: int, epoch: int, **changes: Any) -> None:
        self._part("brokers")[broker_id] = self._broker(broker_id, epoch)._replace(**changes)

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self._part("controllers")[record.controller_id] = ControllerRegistration(
            record.controller_id,
            record.incarnation_id,
            {found.name: Endpoint(found.host, found.port, found.security_protocol) for found in record.end_points},
            {found.name: (found.min_supported_version, found.max_supported_version) for found in record.features},
        )

    # -- topics ------------------------------------------------------------------------------------------------------

    def _topic(self, record: TopicRecord) -> None:
        self._part("topics")[record.topic_id] = TopicImage(record.name, record.topic_id, {})
        self._part("topic_ids")[record.name] = record.topic_id

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic: TopicImage | None = self._part("topics").pop(record.topic_id, None)
        if topic is None:
            raise IllegalStateError(f"a metadata record removes the topic of id {record.topic_id.hex()}; there is none")
        self._partitions.pop(record.topic_id, None)
        if self._part("topic_ids").get(topic.name) == record.topic_id:
            del self._part("topic_ids")[topic.name]
        if (ConfigResourceType.TOPIC, topic.name) in self._current("configs"):
            del self._part("configs")[ConfigResourceType.TOPIC, topic.name]

    def _partition(self, record: PartitionRecord) -> None:
        self._partitions_of(record.topic_id)[record.partition_id] = PartitionRegistration(
            tuple(record.replicas),
            tuple(record.isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
            tuple(record.adding_replicas),
            tuple(record.removing_replicas),
            tuple(record.directories),
            record.leader_recovery_state,
        )

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions_of(record.topic_id)
        found = partitions.get(record.partition_id)
        if found is None:
            raise IllegalStateError(
                f"a metadata record changes partition {record.partition_id} of the topic of id "
                f"{record.topic_id.hex()}; there is none"
            )
        partitions[record.partition_id] = changed_partition(found, record)

    def _partitions_of(self, topic_id: bytes) -> dict[int, PartitionRegistration]:
        found = self._partitions.get(topic_id)
        if found is None:
            topic: TopicImage | None = self._current("topics").get(topic_id)
            if topic is None:
                raise IllegalStateError(f"a metadata record names the topic of id {topic_id.hex()}; there is none")
            found = self._partitions[topic_id] = dict(topic.partitions)
        return found

    def _current(self, name: str) -> Mapping[Any, Any]:
        found: Mapping[Any, Any] = self._parts[name] if name in self._parts else getattr(self._image, name)
        return found

    def _clear_elr(self, record: ClearElrRecord) -> None:
        wanted = [self._current("topic_ids")[record.topic_name]] if record.topic_name else list(self._current("topics"))
        for topic_id in wanted:
            partitions = self._partitions_of(topic_id)
            for index, found in partitions.items():
                if found.elr or found.last_known_elr:
                    partitions[index] = found._replace(
                        elr=(), last_known_elr=(), partition_epoch=found.partition_epoch + 1
                    )

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _config(self, record: ConfigRecord) -> None:
        _put(self._part("configs"), (record.resource_type, record.resource_name), record.name, record.value)

    def _client_quota(self, record: ClientQuotaRecord) -> None:
        entity = frozenset((found.entity_type, found.entity_name) for found in record.entity)
        _put(self._part("client_quotas"), entity, record.key, None if record.remove else record.value)

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        levels = self._part("features")
        if record.feature_level == 0:
            levels.pop(record.name, None)
        else:
            levels[record.name] = record.feature_level

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self._parts["next_producer_id"] = record.next_producer_id

    def _acl(self, record: AccessControlEntryRecord) -> None:
        self._part("acls")[record.id] = record

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self._part("acls").pop(record.id, None)

    def _scram(self, record: UserScramCredentialRecord) -> None:
        self._part("scram_credentials")[record.name, record.mechanism] = record

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self._part("scram_credentials").pop((record.name, record.mechanism), None)

    def _token(self, record: DelegationTokenRecord) -> None:
        self._part("delegation_tokens")[record.token_id] = record

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._part("delegation_tokens").pop(record.token_id, None)


def changed_partition(found: PartitionRegistration, record: PartitionChangeRecord) -> PartitionRegistration:
    """Return a partition after a change (PartitionRegistration.merge): what the record leaves out stays.

    A leader that is named begins an epoch, also where it is the same one.
    """
    is_elected = record.leader != NO_LEADER_CHANGE
    recovery = record.leader_recovery_state
    return PartitionRegistration(
        _given(record.replicas, found.replicas),
        _given(record.isr, found.isr),
        record.leader if is_elected else found.leader,
        found.leader_epoch + is_elected,
        found.partition_epoch + 1,
        _given(record.eligible_leader_replicas, found.elr),
        _given(record.last_known_elr, found.last_known_elr),
        _given(record.adding_replicas, found.adding_replicas),
        _given(record.removing_replicas, found.removing_replicas),
        _given(record.directories, found.directories),
        found.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else recovery,
    )


def _given(new: list[V] | None, old: tuple[V, ...]) -> tuple[V, ...]:
    return old if new is None else tuple(new)


def _put(parts: dict[K, Mapping[str, V]], key: K, name: str, value: V | None) -> None:
    """Set or (None) delete one value of a resource; one without any is gone."""
    values = {**parts.get(key, {})}
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value
    if values:
        parts[key] = values
    else:
        parts.pop(key, None)


#: Record type → what it does. The others (NoOp, transactions, migration) say nothing of the cluster.
_REPLAY: dict[str, Callable[[MetadataDelta, Any], None]] = {
    "RegisterBrokerRecord": MetadataDelta._register_broker,
    "UnregisterBrokerRecord": MetadataDelta._unregister_broker,
    "TopicRecord": MetadataDelta._topic,
    "PartitionRecord": MetadataDelta._partition,
    "ConfigRecord": MetadataDelta._config,
    "PartitionChangeRecord": MetadataDelta._change_partition,
    "FenceBrokerRecord": MetadataDelta._fence_broker,
    "UnfenceBrokerRecord": MetadataDelta._unfence_broker,
    "RemoveTopicRecord": MetadataDelta._remove_topic,
    "DelegationTokenRecord": MetadataDelta._token,
    "UserScramCredentialRecord": MetadataDelta._scram,
    "FeatureLevelRecord": MetadataDelta._feature_level,
    "ClientQuotaRecord": MetadataDelta._client_quota,
    "ProducerIdsRecord": MetadataDelta._producer_ids,
    "BrokerRegistrationChangeRecord": MetadataDelta._change_registration,
    "AccessControlEntryRecord": MetadataDelta._acl,
    "RemoveAccessControlEntryRecord": MetadataDelta._remove_acl,
    "RemoveUserScramCredentialRecord": MetadataDelta._remove_scram,
    "RemoveDelegationTokenRecord": MetadataDelta._remove_token,
    "RegisterControllerRecord": MetadataDelta._register_controller,
    "ClearElrRecord": MetadataDelta._clear_elr,
}
