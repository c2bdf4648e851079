"""Creating and deleting topics, adding partitions (the topics' half of ReplicationControlManager)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.controller.configuration_control_manager import Alteration
from barnabas.broker.controller.controller_result import DONE, ControllerResult, Outcome, Records, check_size
from barnabas.broker.metadata.cluster_metadata import folded
from barnabas.broker.metadata.image_records import partition_record
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.broker.topic_admin import MAX_PARTITIONS_PER_REQUEST, check_topic_name
from barnabas.broker.topic_policy import TopicRequest, allow_all
from barnabas.protocol.kafka_uuid import random_uuid
from barnabas.protocol.kinds import ConfigResourceType, OpType
from barnabas.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.messages.topic_record import TopicRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from random import Random

    from barnabas.broker.controller.configuration_control_manager import ConfigurationControlManager
    from barnabas.broker.controller.controller_result import ControllerRequestContext
    from barnabas.broker.controller.partition_changes import PartitionChanges
    from barnabas.broker.metadata.metadata_image import TopicImage
    from barnabas.protocol.messages.create_partitions_request import CreatePartitionsTopic
    from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest

_DEFAULT = -1


class TopicDefaults(NamedTuple):
    """What a topic gets that does not say how many."""

    partitions: int = 1
    replication_factor: int = 3


class TopicControlManager:
    """Plans topics and their partitions; `random` makes ids, the placer of `changes.cluster` chooses brokers."""

    def __init__(
        self,
        changes: PartitionChanges,
        configs: ConfigurationControlManager,
        defaults: TopicDefaults,
        random: Random,
    ) -> None:
        self._changes = changes
        self._configs = configs
        self._defaults = defaults
        self._random = random
        #: Raises where the operator allows no such topic.
        self.check_policy: Callable[[TopicRequest], None] = allow_all
        self._state = changes.state

    # -- new topics --------------------------------------------------------------------------------------------------

    def create_topics(
        self, context: ControllerRequestContext, request: CreateTopicsRequest, describable: Collection[str]
    ) -> ControllerResult[CreateTopicsResponse]:
        """Create what can be created, in one batch; each topic has its own result.

        `describable`: the topics whose settings may be told. Raises `PolicyViolationError` for too many partitions.
        """
        asked = sum(self._count_of(topic) for topic in request.topics)
        if asked > MAX_PARTITIONS_PER_REQUEST:
            raise errors.PolicyViolationError("Excessively large number of partitions per request.")
        records: Records = []
        names: dict[str, str] = {}
        response = CreateTopicsResponse()
        for topic in request.topics:
            try:
                self._check_name(topic.name, names)
                made, result = self._create(context, topic, describable)
                records += made
                names[folded(topic.name)] = topic.name
            except errors.KafkaError as problem:
                result = CreatableTopicResult(name=topic.name, error_code=problem.code, error_message=str(problem))
            response.topics.append(result)
        check_size(records)
        return ControllerResult(() if request.validate_only else records, response, True)

    def _count_of(self, topic: CreatableTopic) -> int:
        if topic.assignments:
            return len(topic.assignments)
        return self._defaults.partitions if topic.num_partitions == _DEFAULT else max(topic.num_partitions, 0)

    def _check_name(self, name: str, planned: Mapping[str, str]) -> None:
        check_topic_name(name)
        if name in self._state.image.topic_ids:
            raise errors.TopicExistsError(f"Topic '{name}' already exists.")
        other = self._state.indexes.colliding(name) or planned.get(folded(name))
        if other is not None:
            raise errors.InvalidTopicError(f"Topic '{name}' collides with existing topic: {other}")

    def _create(
        self, context: ControllerRequestContext, topic: CreatableTopic, describable: Collection[str]
    ) -> tuple[Records, CreatableTopicResult]:
        configs, config_records = self._topic_configs(topic, context)
        partitions = self._assigned(topic) if topic.assignments else self._placed(topic)
        self.check_policy(_request(topic, partitions, configs))
        context.mutate(len(partitions))
        topic_id = random_uuid(self._random)
        version = self._state.metadata_version
        records: Records = [ApiMessageAndVersion(TopicRecord(name=topic.name, topic_id=topic_id)), *config_records]
        records += [partition_record(topic_id, index, found, version) for index, found in sorted(partitions.items())]
        result = CreatableTopicResult(name=topic.name, topic_id=topic_id, error_message=None)
        if topic.name in describable:
            result.num_partitions = len(partitions)
            result.replication_factor = len(partitions[0].replicas)
            result.configs = self._shown(configs)
        else:
            result.topic_config_error_code = errors.TopicAuthorizationError.code
        return records, result

    def _topic_configs(
        self, topic: CreatableTopic, context: ControllerRequestContext
    ) -> tuple[Mapping[str, str], Records]:
        unset = [config.name for config in topic.configs if config.value is None]
        if unset:
            raise errors.InvalidConfigurationError(f"Null value not supported for topic configs: {','.join(unset)}")
        configs = {config.name: config.value for config in topic.configs if config.value is not None}
        if not configs:
            return configs, []
        alterations = {name: Alteration(OpType.SET, value) for name, value in configs.items()}
        resource = (ConfigResourceType.TOPIC.value, topic.name)
        records = self._configs.altered(resource, alterations, is_new=True, is_forwarded=context.is_forwarded)
        return configs, self._configs.with_clear_elr(records)

    def _shown(self, configs: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        return [
            CreatableTopicConfigs(
                name=found.name,
                value=None if found.is_sensitive else found.value,
                config_source=found.source,
                is_sensitive=found.is_sensitive,
            )
            for found in self._configs.schema.topic_configs(configs)
        ]

    def _assigned(self, topic: CreatableTopic) -> Mapping[int, PartitionRegistration]:
        """Return the partitions that the client has assigned by hand."""
        for what, value in (("replication factor", topic.replication_factor), ("numPartitions", topic.num_partitions)):
            if value != _DEFAULT:
                raise errors.InvalidRequestError(
                    f"A manual partition assignment was specified, but {what} was not set to -1."
                )
        factor: int | None = None
        partitions: dict[int, PartitionRegistration] = {}
        for assignment in topic.assignments:
            index, replicas = assignment.partition_index, assignment.broker_ids
            if index in partitions:
                raise errors.InvalidReplicaAssignmentError(
                    f"Found multiple manual partition assignments for partition {index}"
                )
            self._changes.check_manual_assignment(replicas, factor)
            factor = len(replicas)
            partitions[index] = self._new_by_hand(index, replicas)
        if sorted(partitions) != list(range(len(partitions))):
            raise errors.InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")
        return partitions

    def _new_by_hand(self, index: int, replicas: Sequence[int]) -> PartitionRegistration:
        found = self._new(replicas)
        if found is None:
            raise errors.InvalidReplicaAssignmentError(
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown."
            )
        return found

    def _placed(self, topic: CreatableTopic) -> Mapping[int, PartitionRegistration]:
        """Return partitions on brokers that the controller chooses."""
        factor, count = topic.replication_factor, topic.num_partitions
        if factor < _DEFAULT or factor == 0:
            raise errors.InvalidReplicationFactorError(
                "Replication factor must be larger than 0, or -1 to use the default value."
            )
        if count < _DEFAULT or count == 0:
            raise errors.InvalidPartitionsError("Number of partitions was set to an invalid non-positive value.")
        factor = self._defaults.replication_factor if factor == _DEFAULT else factor
        count = self._defaults.partitions if count == _DEFAULT else count
        try:
            placed = self._changes.cluster.place(count, factor)
        except errors.InvalidReplicationFactorError as problem:
            raise errors.InvalidReplicationFactorError(
                f"Unable to replicate the partition {factor} time(s): {problem}"
            ) from problem
        return {index: self._new_on_placed(replicas, factor) for index, replicas in enumerate(placed)}

    def _new_on_placed(self, replicas: Sequence[int], factor: int) -> PartitionRegistration:
        found = self._new(replicas)
        if found is None:
            raise errors.InvalidReplicationFactorError(
                f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in "
                "controlled shutdown."
            )
        return found

    def _new(self, replicas: Sequence[int]) -> PartitionRegistration | None:
        """Return a new partition: active replicas are in sync, the first leads; None if no replica is active."""
        isr = tuple(replica for replica in replicas if self._state.is_active(replica))
        if not isr:
            return None
        directories = tuple(self._changes.cluster.default_directory(replica) for replica in replicas)
        return PartitionRegistration(tuple(replicas), isr, isr[0], 0, 0, directories=directories)

    # -- topics that are there ---------------------------------------------------------------------------------------

    def delete_topics(
        self, context: ControllerRequestContext, topic_ids: Iterable[bytes]
    ) -> ControllerResult[dict[bytes, Outcome]]:
        """Delete topics; the response has an outcome for each id."""
        records: Records = []
        outcomes: dict[bytes, Outcome] = {}
        for topic_id in topic_ids:
            topic = self._state.image.topics.get(topic_id)
            try:
                if topic is None:
                    raise errors.UnknownTopicIdError()
                context.mutate(len(topic.partitions))
                records.append(ApiMessageAndVersion(RemoveTopicRecord(topic_id=topic_id)))
                outcomes[topic_id] = DONE
            except errors.KafkaError as problem:
                outcomes[topic_id] = Outcome.of(problem)
        check_size(records)
        return ControllerResult(records, outcomes, True)

    def create_partitions(
        self, context: ControllerRequestContext, topics: Iterable[CreatePartitionsTopic]
    ) -> ControllerResult[list[Outcome]]:
        """Add partitions; the response has an outcome for each topic of the request."""
        records: Records = []
        outcomes: list[Outcome] = []
        for asked in topics:
            try:
                records += self._added(context, asked)
                outcomes.append(DONE)
            except errors.KafkaError as problem:
                outcomes.append(Outcome.of(problem))
            check_size(records)
        return ControllerResult(records, outcomes, True)

    def _added(self, context: ControllerRequestContext, asked: CreatePartitionsTopic) -> Records:
        topic = self._state.image.topic(asked.name)
        if topic is None:
            raise errors.UnknownTopicOrPartitionError()
        present = len(topic.partitions)
        if asked.count == present:
            raise errors.InvalidPartitionsError(f"Topic already has {present} partition(s).")
        if asked.count < present:
            raise errors.InvalidPartitionsError(
                f"The topic {asked.name} currently has {present} partition(s); {asked.count} would not be an increase."
            )
        added = asked.count - present
        if asked.assignments is not None and len(asked.assignments) != added:
            raise errors.InvalidReplicaAssignmentError(
                f"Attempted to add {added} additional partition(s), but only {len(asked.assignments)} assignment(s) "
                "were specified."
            )
        check_size(range(added))
        context.mutate(added)
        version = self._state.metadata_version
        return [
            partition_record(topic.id, present + index, found, version)
            for index, found in enumerate(self._more(topic, asked, added))
        ]

    def _more(self, topic: TopicImage, asked: CreatePartitionsTopic, added: int) -> Sequence[PartitionRegistration]:
        factor = len(next(iter(topic.partitions.values())).replicas)
        if asked.assignments is None:
            return [self._new_on_placed(replicas, factor) for replicas in self._changes.cluster.place(added, factor)]
        present = len(topic.partitions)
        made = []
        for index, assignment in enumerate(asked.assignments, present):
            self._changes.check_manual_assignment(assignment.broker_ids, factor)
            made.append(self._new_by_hand(index, assignment.broker_ids))
        return made


def _request(
    topic: CreatableTopic, partitions: Mapping[int, PartitionRegistration], configs: Mapping[str, str]
) -> TopicRequest:
    replicas = {index: found.replicas for index, found in partitions.items()}
    if topic.assignments:
        return TopicRequest(topic.name, None, None, replicas, configs)
    return TopicRequest(topic.name, len(partitions), len(replicas[0]), None, configs)
