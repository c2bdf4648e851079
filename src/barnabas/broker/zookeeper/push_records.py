"""What a controller's requests are as metadata records."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.messages.stop_replica_request import StopReplicaRequest
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.broker.metadata.metadata_image import Endpoint, MetadataImage
    from barnabas.broker.metadata.partition_registration import PartitionRegistration
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.leader_and_isr_request import LeaderAndIsrRequest
    from barnabas.protocol.messages.update_metadata_request import UpdateMetadataRequest

#: What a controller pushes.
PushRequest: TypeAlias = "LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest"
#: Controllers do not tell brokers the epochs of others.
_NO_EPOCH = -1


def unknown_topics(image: MetadataImage, request: PushRequest) -> dict[str, bytes]:
    """Return the topics of LeaderAndIsr and UpdateMetadata that an image does not have."""
    if isinstance(request, StopReplicaRequest):
        return {}
    return {
        topic.topic_name: topic.topic_id
        for topic in request.topic_states
        if image.topic_ids.get(topic.topic_name) != topic.topic_id
        and not any(state.leader < -1 for state in topic.partition_states)
    }


def topic_records(image: MetadataImage, name: str, topic_id: bytes) -> Iterable[Message]:
    """Give the records with which an image has a topic; another one of that name is gone then."""
    known = image.topic_ids.get(name)
    if known == topic_id:
        return
    if known is not None:
        yield RemoveTopicRecord(topic_id=known)
    yield TopicRecord(name=name, topic_id=topic_id)


def partition_record(topic_id: bytes, index: int, registration: PartitionRegistration) -> PartitionRecord:
    """Return the record of a partition."""
    return PartitionRecord(
        topic_id=topic_id,
        partition_id=index,
        replicas=list(registration.replicas),
        isr=list(registration.isr),
        leader=registration.leader,
        leader_epoch=registration.leader_epoch,
        partition_epoch=registration.partition_epoch,
        adding_replicas=list(registration.adding_replicas),
        removing_replicas=list(registration.removing_replicas),
        leader_recovery_state=registration.leader_recovery_state,
    )


def is_older(new: PartitionRegistration, known: PartitionRegistration | None) -> bool:
    """Whether news of a partition are older than what is known: a controller sends its requests in order, each once."""
    if known is None:
        return False
    return (new.leader_epoch, new.partition_epoch) < (known.leader_epoch, known.partition_epoch)


def broker_records(
    image: MetadataImage, brokers: Mapping[int, tuple[Mapping[str, Endpoint], str | None]]
) -> Iterable[Message]:
    """Give the records with which exactly these brokers, with their listeners and racks, are alive in an image."""
    for broker_id in image.brokers:
        if broker_id not in brokers:
            yield UnregisterBrokerRecord(broker_id=broker_id)
    for broker_id, (listeners, rack) in brokers.items():
        known = image.brokers.get(broker_id)
        if known is None or known.listeners != listeners or known.rack != rack:
            endpoints = [BrokerEndpoint(name=name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                         for name, e in listeners.items()]  # fmt: skip
            yield RegisterBrokerRecord(
                broker_id=broker_id, broker_epoch=_NO_EPOCH, end_points=endpoints, rack=rack, fenced=False
            )
