"""Topics as clients ask for them, written to their znodes, which the controller watches (ZkAdminManager)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from barnabas import errors
from barnabas.broker.controller.replica_placer import StripedReplicaPlacer, UsableBroker
from barnabas.broker.handlers.create_topics import Shown
from barnabas.broker.membership.refusals import refused
from barnabas.broker.metadata.cluster_metadata import TopicMetadata, folded
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.topic_admin import check_topic_configs, check_topic_name
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller.controller_context import ReplicaAssignment
from barnabas.broker.zookeeper.controller.kafka_zk_client import topic_znode
from barnabas.broker.zookeeper.operations import (
    Create,
    Delete,
    Get,
    NodeExistsError,
    NoNodeError,
    SetData,
    ZooKeeperError,
    found_or_none,
)
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kafka_uuid import random_uuid
from barnabas.protocol.message import ZERO_UUID
from barnabas.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from barnabas.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics_request import DeleteTopicState
from barnabas.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from barnabas.protocol.metadata_topic import CLUSTER_METADATA_TOPIC
from barnabas.protocol.thresholds import DELETE_TOPICS_BY_ID_FROM

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.zookeeper.controller.active_controller import ActiveController
    from barnabas.broker.zookeeper.controller.controller_context import ControllerContext
    from barnabas.broker.zookeeper.controller.topic_waits import TopicWaits
    from barnabas.broker.zookeeper.operations import Program
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
    from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
    from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest

_DEFAULT = -1


AdminRequest: TypeAlias = "CreateTopicsRequest | DeleteTopicsRequest | CreatePartitionsRequest"
R = TypeVar("R", bound=AdminRequest)


class Changed(NamedTuple):
    """A response, and what has to be seen before it is given: `is_seen` by topic; those in vain get an error."""

    response: Message
    results: Mapping[str, Any]
    is_seen: Callable[[MetadataImage, str], bool]


class ZkAdminManager:
    """Answers CreateTopics, DeleteTopics and CreatePartitions; `image` is what this broker goes by."""

    def __init__(self, waits: TopicWaits, random: random.Random, image: Callable[[], MetadataImage]) -> None:
        self._waits = waits
        self._random = random
        self._image = image

    @staticmethod
    def serves(api_key: int) -> bool:
        """Whether an API is answered here."""
        return api_key in _CHANGES

    def handle(
        self, controller: ActiveController | None, broker: BrokerState, context: RequestContext, request: AdminRequest
    ) -> DelayedOperation:
        """Write what is asked for, and answer when this broker knows of it, or the request's time is over."""
        operation = DelayedOperation()

        def refuse(problem: errors.KafkaError) -> None:
            operation.complete(refused(request, problem.code))

        def answer(active: ActiveController) -> Program[None]:
            change = _CHANGES[request.API_KEY](self, active, _Asked(broker, context, request))
            self._answer_when_seen(operation, (yield from change), context.now + request.timeout_ms / 1000)

        if controller is None:
            refuse(errors.NotControllerError())
        else:
            controller.put(request.NAME, partial(answer, controller), refuse)
        return operation

    def _answer_when_seen(self, operation: DelayedOperation, changed: Changed, deadline: float) -> None:
        def unseen(image: MetadataImage) -> list[str]:
            waiting = [name for name, result in changed.results.items() if not result.error_code]
            return [name for name in waiting if not changed.is_seen(image, name)]

        def done() -> None:
            for name in unseen(self._image()):
                result = changed.results[name]
                result.error_code = errors.KafkaTimeoutError.code
                result.error_message = "The change was made, and not all brokers have taken part in time."
            operation.complete(changed.response)

        if unseen(self._image()):
            self._waits.add(lambda image: not unseen(image), deadline, done)
        else:
            done()

    # -- new topics --------------------------------------------------------------------------------------------------

    def create_topics(self, active: ActiveController, asked: _Asked[CreateTopicsRequest]) -> Program[Changed]:
        """Write the settings and the assignment of new topics, each together."""
        request, times = asked.request, Counter(topic.name for topic in asked.request.topics)
        results: dict[str, CreatableTopicResult] = {}
        shown = Shown(asked.broker)
        planned: set[str] = set()
        for topic in request.topics:
            try:
                if times[topic.name] > 1:
                    raise errors.InvalidRequestError(f"Topic '{topic.name}' stands in the request more than once.")
                _check_new(active.context, topic.name, planned)
                configs = check_topic_configs({one.name: one.value for one in topic.configs}, asked.topic_defaults)
                assignments = self._assignments(active.context, asked, topic)
                asked.mutate(len(assignments))
                topic_id = random_uuid(self._random)
                if not request.validate_only:
                    yield from _write_topic(active, topic.name, topic_id, assignments, configs)
                planned.add(folded(topic.name))
                made = TopicMetadata(topic.name, topic_id, len(assignments), configs, asked.context.now_ms)
                results[topic.name] = shown.result(made, len(assignments[0].replicas))
            except ZooKeeperError:
                raise
            except errors.KafkaError as problem:
                results[topic.name] = CreatableTopicResult(topic.name, ZERO_UUID, problem.code, str(problem))
        response = CreateTopicsResponse(topics=list(results.values()))
        return Changed(response, {} if request.validate_only else results, _has_leaders(active.context))

    def _assignments(
        self, context: ControllerContext, asked: _Asked[CreateTopicsRequest], topic: CreatableTopic
    ) -> dict[int, ReplicaAssignment]:
        count, factor = topic.num_partitions, topic.replication_factor
        if topic.assignments:
            if (count, factor) != (_DEFAULT, _DEFAULT):
                raise errors.InvalidRequestError(
                    "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at "
                    "the same time."
                )
            return _by_hand({one.partition_index: one.broker_ids for one in topic.assignments})
        config = asked.broker.config
        count = config.get_int("num.partitions") if count == _DEFAULT else count
        factor = config.get_int("default.replication.factor") if factor == _DEFAULT else factor
        if count <= 0:
            raise errors.InvalidPartitionsError("Number of partitions must be larger than 0.")
        placed = self._placed(context, count, factor)
        return {index: ReplicaAssignment(replicas) for index, replicas in enumerate(placed)}

    def _placed(self, context: ControllerContext, count: int, factor: int) -> list[tuple[int, ...]]:
        if factor <= 0:
            raise errors.InvalidReplicationFactorError("Replication factor must be larger than 0.")
        alive = len(context.live_brokers)
        if factor > alive:
            raise errors.InvalidReplicationFactorError(
                f"Replication factor: {factor} larger than available brokers: {alive}."
            )
        usable = [UsableBroker(number, context.brokers[number].rack, False) for number in sorted(context.live_brokers)]
        return [tuple(replicas) for replicas in StripedReplicaPlacer(self._random).place(count, factor, usable)]

    # -- more partitions ---------------------------------------------------------------------------------------------

    def create_partitions(self, active: ActiveController, asked: _Asked[CreatePartitionsRequest]) -> Program[Changed]:
        """Write longer assignments of topics."""
        request, times = asked.request, Counter(topic.name for topic in asked.request.topics)
        results: dict[str, CreatePartitionsTopicResult] = {}
        context = active.context
        for topic in request.topics:
            result = results[topic.name] = CreatePartitionsTopicResult(name=topic.name, error_message=None)
            try:
                if times[topic.name] > 1:
                    raise errors.InvalidRequestError(f"Topic '{topic.name}' stands in the request more than once.")
                added = self._added(context, topic)
                asked.mutate(len(added))
                if not request.validate_only:
                    longer = {**active.reassignments.kept(topic.name), **added}
                    yield from active.environment.zk.set_topic(topic.name, context.topic_ids[topic.name], longer)
            except ZooKeeperError:
                raise
            except errors.KafkaError as problem:
                result.error_code, result.error_message = problem.code, str(problem)
        response = CreatePartitionsResponse(results=list(results.values()))
        counts = {topic.name: topic.count for topic in request.topics}
        return Changed(response, {} if request.validate_only else results, _has_leaders(context, counts))

    def _added(self, context: ControllerContext, topic: CreatePartitionsTopic) -> dict[int, ReplicaAssignment]:
        known = context.assignments.get(topic.name)
        if known is None:
            raise errors.UnknownTopicOrPartitionError(f"The topic '{topic.name}' does not exist.")
        if context.is_queued_for_deletion(topic.name):
            raise errors.InvalidTopicError("The topic is queued for deletion.")
        if any(assignment.is_being_reassigned for assignment in known.values()):
            raise errors.ReassignmentInProgressError(
                f"A partition reassignment is in progress for the topic '{topic.name}'."
            )
        present, added = len(known), topic.count - len(known)
        if added < 0:
            raise errors.InvalidPartitionsError(
                f"Topic currently has {present} partitions, which is higher than the requested {topic.count}."
            )
        if not added:
            raise errors.InvalidPartitionsError(f"Topic already has {present} partitions.")
        factor = len(known[min(known)].replicas)
        if topic.assignments is None:
            placed = self._placed(context, added, factor)
            return {present + index: ReplicaAssignment(replicas) for index, replicas in enumerate(placed)}
        by_hand = [one.broker_ids for one in topic.assignments]
        unknown = {number for replicas in by_hand for number in replicas} - context.brokers.keys()
        if unknown:
            raise errors.InvalidReplicaAssignmentError(f"Unknown broker(s) in replica assignment: {sorted(unknown)}.")
        if len(by_hand) != added:
            raise errors.InvalidReplicaAssignmentError(
                f"Increasing the number of partitions by {added} but {len(by_hand)} assignments provided."
            )
        found = _by_hand(dict(enumerate(by_hand)), factor)
        return {present + index: assignment for index, assignment in found.items()}

    # -- topics that go ----------------------------------------------------------------------------------------------

    def delete_topics(self, active: ActiveController, asked: _Asked[DeleteTopicsRequest]) -> Program[Changed]:
        """Write which topics are to be deleted; one that is already is waited for as well."""
        request, context = asked.request, active.context
        if asked.context.api_version >= DELETE_TOPICS_BY_ID_FROM:
            wanted = list(request.topics)
        else:
            wanted = [DeleteTopicState(name=name) for name in request.topic_names]
        results: dict[str, DeletableTopicResult] = {}
        response = DeleteTopicsResponse()
        doomed: dict[str, bytes] = {}
        for state in wanted:
            result = DeletableTopicResult(name=state.name, topic_id=state.topic_id, error_message=None)
            response.responses.append(result)
            try:
                name = _doomed(active, asked, state)
                if name in results:
                    raise errors.InvalidRequestError(f"Topic '{name}' stands in the request more than once.")
                asked.mutate(len(context.assignments[name]))
                result.name, result.topic_id = name, context.topic_ids[name]
                results[name], doomed[name] = result, result.topic_id
            except errors.KafkaError as problem:
                result.error_code, result.error_message = problem.code, str(problem)
        made = yield from active.environment.zk.write([Create(f"{znodes.DELETE_TOPICS}/{name}") for name in results])
        for found in made:
            if isinstance(found, ZooKeeperError) and not isinstance(found, NodeExistsError):
                raise found
        return Changed(response, results, lambda image, name: image.topic_ids.get(name) != doomed[name])


class _Asked(NamedTuple, Generic[R]):
    """A request of a client."""

    broker: BrokerState
    context: RequestContext
    request: R

    @property
    def topic_defaults(self) -> Mapping[str, Any]:
        """The settings of topics that set none themselves."""
        return self.broker.config.topic_defaults

    def mutate(self, count: int) -> None:
        """Count partitions that change. Raises `ThrottlingQuotaExceededError`."""
        self.broker.client_quotas.mutate(self.context, count)


def _check_new(context: ControllerContext, name: str, planned: set[str]) -> None:
    check_topic_name(name)
    if name == CLUSTER_METADATA_TOPIC:
        raise errors.InvalidRequestError(f"Creation of internal topic {name} is prohibited.")
    if context.is_queued_for_deletion(name):
        raise errors.TopicExistsError(f"Topic '{name}' is marked for deletion.")
    if name in context.topics:
        raise errors.TopicExistsError(f"Topic '{name}' already exists.")
    other = next((topic for topic in context.topics if folded(topic) == folded(name)), None)
    if other is not None or folded(name) in planned:
        raise errors.InvalidTopicError(f"Topic '{name}' collides with existing topics: {other or 'of this request'}")


def _by_hand(wanted: Mapping[int, Sequence[int]], factor: int | None = None) -> dict[int, ReplicaAssignment]:
    """Return what a client has assigned itself. Raises `InvalidReplicaAssignmentError`."""
    if sorted(wanted) != list(range(len(wanted))):
        raise errors.InvalidReplicaAssignmentError("Partitions should be a consecutive 0-based integer sequence")
    sizes = {len(replicas) for replicas in wanted.values()} | ({factor} if factor is not None else set())
    for index, replicas in wanted.items():
        if not replicas or len(set(replicas)) != len(replicas) or min(replicas) < 0:
            raise errors.InvalidReplicaAssignmentError(
                f"Duplicate, invalid or no replicas assigned to partition {index}: {list(replicas)}"
            )
    if len(sizes) > 1:
        raise errors.InvalidReplicaAssignmentError("All partitions should have the same number of replicas")
    return {index: ReplicaAssignment(tuple(wanted[index])) for index in sorted(wanted)}


def _write_topic(
    active: ActiveController,
    name: str,
    topic_id: bytes,
    assignments: Mapping[int, ReplicaAssignment],
    configs: Mapping[str, str],
) -> Program[None]:
    """Write settings and assignment together; settings that another topic of that name has left are replaced."""
    path, data = f"{znodes.CONFIG}/topics/{name}", znodes.encode_config(configs)
    (result,) = yield [Get(path)]
    left = found_or_none(result)
    settings = Create(path, data) if left is None else SetData(path, data, left.version)
    topic = Create(znodes.topic_path(name), znodes.encode_topic(topic_znode(topic_id, assignments)))
    # A wish to delete a topic that was not there would hit this one.
    wish = f"{znodes.DELETE_TOPICS}/{name}"
    (result,) = yield [Get(wish)]
    old = [] if found_or_none(result) is None else [Delete(wish)]
    try:
        yield from active.environment.zk.write_together([*old, settings, topic])
    except NodeExistsError as problem:
        raise errors.TopicExistsError(f"Topic '{name}' already exists.") from problem
    except NoNodeError as problem:
        raise errors.InvalidTopicError(f"Topic '{name}' could not be created: {problem}") from problem


def _doomed(active: ActiveController, asked: _Asked[Any], state: DeleteTopicState) -> str:
    context = active.context
    if not active.environment.settings.deletes_topics:
        refusal = errors.TopicDeletionDisabledError if asked.context.api_version >= 3 else errors.InvalidRequestError
        raise refusal("Topic deletion is disabled.")
    if state.name is not None and state.topic_id != ZERO_UUID:
        raise errors.InvalidRequestError("Topic name and topic ID can not both be specified.")
    if state.name is not None:
        if state.name not in context.topics:
            raise errors.UnknownTopicOrPartitionError("This server does not host this topic-partition.")
        return state.name
    if state.topic_id not in context.topic_names:
        raise errors.UnknownTopicIdError("This server does not host this topic ID.")
    return context.topic_names[state.topic_id]


def _has_leaders(
    context: ControllerContext, counts: Mapping[str, int] | None = None
) -> Callable[[MetadataImage, str], bool]:
    """Return whether all partitions of a topic have a leader in an image."""

    def is_seen(image: MetadataImage, name: str) -> bool:
        topic = image.topic(name)
        if topic is None:
            return False
        count = len(context.assignments.get(name, ())) if counts is None else counts[name]
        led = [found for found in topic.partitions.values() if found.leader >= 0]
        return len(led) >= max(count, 1)

    return is_seen


# A row takes the request of its API; only the table does not tell them apart.
_CHANGES: dict[int, Callable[[ZkAdminManager, ActiveController, _Asked[Any]], Program[Changed]]] = {
    ApiKey.CREATE_TOPICS: ZkAdminManager.create_topics,
    ApiKey.DELETE_TOPICS: ZkAdminManager.delete_topics,
    ApiKey.CREATE_PARTITIONS: ZkAdminManager.create_partitions,
}
