"""The records of an image, as a snapshot has them (MetadataImage.write, KIP-630)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.metadata.metadata_version import METADATA_VERSION, MetadataVersion
from barnabas.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.protocol.messages.config_record import ConfigRecord
from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.producer_ids_record import ProducerIdsRecord
from barnabas.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from barnabas.protocol.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from barnabas.protocol.messages.topic_record import TopicRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.metadata.metadata_image import BrokerRegistration, ControllerRegistration, MetadataImage
    from barnabas.broker.metadata.partition_registration import PartitionRegistration

#: In ProducerIdsRecord: no broker, and none of its lives.
_NO_BROKER = -1


def image_records(image: MetadataImage) -> Iterator[ApiMessageAndVersion]:
    """Give records that, replayed upon nothing, make this image.

    metadata.version comes first, because it says how to read what follows. An image without it gives nothing.
    """
    if METADATA_VERSION not in image.features:
        return
    version = MetadataVersion(image.features[METADATA_VERSION])
    yield _feature(METADATA_VERSION, version.level)
    yield from (_feature(name, level) for name, level in image.features.items() if name != METADATA_VERSION)
    yield from (broker_record(broker, version) for broker in image.brokers.values())
    if version.is_controller_registration_supported:
        yield from (_controller_record(controller) for controller in image.controllers.values())
    for topic in image.topics.values():
        yield ApiMessageAndVersion(TopicRecord(name=topic.name, topic_id=topic.id))
        for index, partition in topic.partitions.items():
            yield partition_record(topic.id, index, partition, version)
    yield from _settings(image)
    if image.next_producer_id > 0:
        yield ApiMessageAndVersion(
            ProducerIdsRecord(broker_id=_NO_BROKER, broker_epoch=_NO_BROKER, next_producer_id=image.next_producer_id)
        )
    for kept in (image.acls, image.scram_credentials, image.delegation_tokens):
        yield from (ApiMessageAndVersion(record) for record in kept.values())


def partition_record(
    topic_id: bytes, index: int, partition: PartitionRegistration, version: MetadataVersion
) -> ApiMessageAndVersion:
    """Return the record of a whole partition."""
    record = PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )
    if version.is_elr_supported:
        record.eligible_leader_replicas = list(partition.elr) or None
        record.last_known_elr = list(partition.last_known_elr) or None
    if version.is_directory_assignment_supported:
        record.directories = list(partition.directories)
    return ApiMessageAndVersion(record, version.partition_record_version)


def broker_record(broker: BrokerRegistration, version: MetadataVersion) -> ApiMessageAndVersion:
    """Return the record of a broker as it stands."""
    record = RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=name, host=found.host, port=found.port, security_protocol=found.security_protocol)
            for name, found in broker.listeners.items()
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )
    if version.is_directory_assignment_supported:
        record.log_dirs = list(broker.directories)
    if version.is_cordoned_log_dirs_supported and broker.cordoned_directories is not None:
        record.cordoned_log_dirs = list(broker.cordoned_directories)
    return ApiMessageAndVersion(record, version.register_broker_record_version)


def _controller_record(controller: ControllerRegistration) -> ApiMessageAndVersion:
    return ApiMessageAndVersion(
        RegisterControllerRecord(
            controller_id=controller.id,
            incarnation_id=controller.incarnation_id,
            end_points=[
                ControllerEndpoint(
                    name=name, host=found.host, port=found.port, security_protocol=found.security_protocol
                )
                for name, found in controller.listeners.items()
            ],
            features=[
                ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in controller.features.items()
            ],
        )
    )


def _settings(image: MetadataImage) -> Iterator[ApiMessageAndVersion]:
    for (kind, name), values in image.configs.items():
        for key, value in values.items():
            yield ApiMessageAndVersion(ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value))
    for entity, quotas in image.client_quotas.items():
        for key, quota in quotas.items():
            parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=str)]
            yield ApiMessageAndVersion(ClientQuotaRecord(entity=parts, key=key, value=quota))


def _feature(name: str, level: int) -> ApiMessageAndVersion:
    return ApiMessageAndVersion(FeatureLevelRecord(name=name, feature_level=level))
