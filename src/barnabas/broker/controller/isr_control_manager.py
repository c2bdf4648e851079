"""Changes of ISRs and directories that brokers ask for (ReplicationControlManager; KIP-497, KIP-903, KIP-858)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.controller.controller_result import ControllerResult, Records
from barnabas.broker.controller.partition_indexes import TopicIdPartition
from barnabas.broker.metadata.metadata_delta import NO_LEADER_CHANGE, changed_partition
from barnabas.broker.metadata.partition_registration import RECOVERED, RECOVERING
from barnabas.protocol.messages.alter_partition_request import BrokerState
from barnabas.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from barnabas.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse, DirectoryData
from barnabas.protocol.messages.assign_replicas_to_dirs_response import PartitionData as AssignedPartition
from barnabas.protocol.messages.assign_replicas_to_dirs_response import TopicData as AssignedTopic
from barnabas.protocol.messages.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from barnabas.broker.controller.partition_changes import PartitionChanges
    from barnabas.broker.metadata.metadata_image import BrokerRegistration, TopicImage
    from barnabas.broker.metadata.partition_registration import PartitionRegistration
    from barnabas.protocol.messages.alter_partition_request import AlterPartitionRequest
    from barnabas.protocol.messages.alter_partition_request import PartitionData as AskedPartition
    from barnabas.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest

#: From this version of AlterPartition on the ISR comes with the brokers' epochs.
_EPOCHS_FROM = 3
_ANY_EPOCH = -1


class IsrControlManager:
    """Plans what leaders ask for their partitions, and brokers for their directories."""

    def __init__(self, changes: PartitionChanges) -> None:
        self._changes = changes
        self._state = changes.state

    # -- AlterPartition ----------------------------------------------------------------------------------------------

    def alter_partition(self, request: AlterPartitionRequest, version: int) -> ControllerResult[AlterPartitionResponse]:
        """Change ISRs as their leaders ask. Raises `StaleBrokerEpochError`."""
        self._state.check_broker_epoch(request.broker_id, request.broker_epoch)
        response = AlterPartitionResponse()
        records: Records = []
        for asked in request.topics:
            result = TopicData(topic_id=asked.topic_id)
            topic = self._state.image.topics.get(asked.topic_id)
            for one in asked.partitions:
                if topic is None:
                    result.partitions.append(_refused(one, errors.UnknownTopicIdError))
                else:
                    if version < _EPOCHS_FROM:
                        one.new_isr_with_epochs = [BrokerState(id, _ANY_EPOCH) for id in one.new_isr]
                    result.partitions.append(self._altered(request.broker_id, topic, one, records))
            response.topics.append(result)
        return ControllerResult(records, response)

    def _altered(self, broker_id: int, topic: TopicImage, asked: AskedPartition, records: Records) -> PartitionData:
        partition = topic.partitions.get(asked.partition_index)
        if partition is None:
            return _refused(asked, errors.UnknownTopicOrPartitionError)
        problem = self._problem(broker_id, partition, asked)
        if problem is not None:
            return _refused(asked, problem)
        whose = TopicIdPartition(topic.id, asked.partition_index)
        builder = self._changes.builder(topic, whose, self._changes.automatic_election(topic.name))
        builder.isr = [member.broker_id for member in asked.new_isr_with_epochs]
        builder.leader_recovery_state = asked.leader_recovery_state
        record = builder.build()
        if record is not None:
            records.append(record)
            change = record.message
            assert isinstance(change, PartitionChangeRecord)
            if change.leader not in (broker_id, NO_LEADER_CHANGE):
                # The ISR ends a reassignment, which takes the leader away: it is to read the metadata again.
                return _refused(asked, errors.NewLeaderElectedError)
            partition = changed_partition(partition, change)
        return PartitionData(
            partition_index=asked.partition_index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=list(partition.isr),
            leader_recovery_state=partition.leader_recovery_state,
            partition_epoch=partition.partition_epoch,
        )

    def _problem(
        self, broker_id: int, partition: PartitionRegistration, asked: AskedPartition
    ) -> type[errors.KafkaError] | None:
        if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
            # A broker that knows more than this controller should look for another one.
            return errors.NotControllerError
        if asked.leader_epoch < partition.leader_epoch:
            return errors.FencedLeaderEpochError
        if broker_id != partition.leader:
            return errors.InvalidRequestError
        if asked.partition_epoch < partition.partition_epoch:
            return errors.InvalidUpdateVersionError
        isr = [member.broker_id for member in asked.new_isr_with_epochs]
        if (
            not isr
            or len(set(isr)) < len(isr)
            or not set(isr) <= set(partition.replicas)
            or partition.leader not in isr
        ):
            return errors.InvalidRequestError
        if asked.leader_recovery_state not in (RECOVERED, RECOVERING):
            return errors.InvalidRequestError
        if asked.leader_recovery_state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
            return errors.InvalidRequestError
        if not all(self._is_eligible(member) for member in asked.new_isr_with_epochs):
            return errors.IneligibleReplicaError
        return None

    def _is_eligible(self, member: BrokerState) -> bool:
        broker = self._state.registration(member.broker_id)
        return broker is not None and broker.is_active and member.broker_epoch in (_ANY_EPOCH, broker.epoch)

    # -- AssignReplicasToDirs ----------------------------------------------------------------------------------------

    def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> ControllerResult[AssignReplicasToDirsResponse]:
        """Note in which directories a broker's replicas lie; one in a lost directory leaves its ISR.

        One that lay in a directory that the broker does not have any more has begun anew, with an empty log.
        Raises `StaleBrokerEpochError`, and `UnsupportedVersionError` below metadata.version 3.7-IV2.
        """
        if not self._state.metadata_version.is_directory_assignment_supported:
            raise errors.UnsupportedVersionError("Directory assignment is not supported yet.")
        broker = self._state.check_broker_epoch(request.broker_id, request.broker_epoch)
        records: Records = []
        lost: dict[TopicIdPartition, None] = {}
        response = AssignReplicasToDirsResponse()
        for asked in request.directories:
            result = DirectoryData(id=asked.id)
            for topic in asked.topics:
                parts: list[AssignedPartition] = []
                for one in topic.partitions:
                    whose = TopicIdPartition(topic.topic_id, one.partition_index)
                    code = self._assigned(broker, whose, asked.id, records)
                    parts.append(AssignedPartition(one.partition_index, code))
                    if not code and not broker.has_online_directory(asked.id):
                        lost[whose] = None
                result.topics.append(AssignedTopic(topic.topic_id, parts))
            response.directories.append(result)
        records += self._changes.updates(lost, to_remove=broker.id)
        return ControllerResult(records, response)

    def _assigned(self, broker: BrokerRegistration, whose: TopicIdPartition, directory: bytes, records: Records) -> int:
        topic = self._state.image.topics.get(whose.topic_id)
        if topic is None:
            return errors.UnknownTopicIdError.code
        partition = topic.partitions.get(whose.partition)
        if partition is None:
            return errors.UnknownTopicOrPartitionError.code
        if broker.id not in partition.replicas:
            return errors.NotLeaderOrFollowerError.code
        builder = self._changes.builder(topic, whose)
        if not broker.has_online_directory(partition.directory(broker.id)):
            builder.begin_anew(broker.id)
        builder.set_directory(broker.id, directory)
        record = builder.build()
        records += [record] if record is not None else []
        return errors.NONE


def _refused(asked: AskedPartition, problem: type[errors.KafkaError]) -> PartitionData:
    return PartitionData(partition_index=asked.partition_index, error_code=problem.code)
