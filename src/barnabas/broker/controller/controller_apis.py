"""The APIs of the active controller, as messages (ControllerApis).

Who may ask is checked before, where requests come in (`barnabas.broker.security`); the APIs of the quorum itself (Vote,
Fetch, ...) and those of every node (ApiVersions, SASL) are answered elsewhere.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from barnabas import errors
from barnabas.broker.controller import controller_settings_apis as settings_apis
from barnabas.broker.controller.controller_result import ControllerResult, Outcome
from barnabas.broker.controller.deferred import Deferred
from barnabas.broker.controller.reassignment_control_manager import list_reassignments
from barnabas.broker.security.refusals import refused
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kinds import EndpointType
from barnabas.protocol.message import ZERO_UUID
from barnabas.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from barnabas.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from barnabas.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from barnabas.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from barnabas.protocol.messages.create_topics_request import CreateTopicsRequest
from barnabas.protocol.messages.create_topics_response import CreatableTopicResult
from barnabas.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from barnabas.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from barnabas.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from barnabas.protocol.metadata_topic import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.controller.controller_result import ControllerRequestContext
    from barnabas.broker.controller.quorum_controller import QuorumController
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
    from barnabas.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
    from barnabas.protocol.messages.alter_partition_request import AlterPartitionRequest
    from barnabas.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
    from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
    from barnabas.protocol.messages.broker_registration_request import BrokerRegistrationRequest
    from barnabas.protocol.messages.controller_registration_request import ControllerRegistrationRequest
    from barnabas.protocol.messages.create_partitions_request import CreatePartitionsRequest
    from barnabas.protocol.messages.create_topics_response import CreateTopicsResponse
    from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest
    from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest
    from barnabas.protocol.messages.elect_leaders_request import ElectLeadersRequest
    from barnabas.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
    from barnabas.protocol.messages.unregister_broker_request import UnregisterBrokerRequest

T = TypeVar("T")

#: From this version on topics are deleted by their ids.
_BY_ID_FROM = 6


class ControllerIdentity(NamedTuple):
    """What a controller says of its cluster: the id, and the listener at which the controllers are reached."""

    cluster_id: str
    listener: str


class ControllerApis:
    """Answers each request that is for the controller, with a `Deferred` response."""

    def __init__(self, controller: QuorumController, identity: ControllerIdentity) -> None:
        self.controller = controller
        self._identity = identity
        self._managers = controller.managers

    @staticmethod
    def serves(api_key: int) -> bool:
        """Whether an API is answered here."""
        return api_key in _HANDLERS

    def handle(self, context: ControllerRequestContext, request: Message) -> Deferred[Message]:
        """Answer a request. What fails as a whole is told in the response's own way."""

        def refuse(problem: errors.KafkaError) -> Message:
            return refused(request, context.api_version, problem.code, str(problem))

        try:
            found = _HANDLERS[request.API_KEY](self, context, request)
        except errors.KafkaError as problem:
            return Deferred.of(refuse(problem))
        return found.map(lambda response: response, refuse)

    # -- brokers and controllers -------------------------------------------------------------------------------------

    def _register_broker(
        self, context: ControllerRequestContext, request: BrokerRegistrationRequest
    ) -> Deferred[Message]:
        registered = self.controller.register_broker(context, request)
        return registered.map(lambda epoch: BrokerRegistrationResponse(broker_epoch=epoch))

    def _heartbeat(self, context: ControllerRequestContext, request: BrokerHeartbeatRequest) -> Deferred[Message]:
        return self.controller.process_heartbeat(context, request).map(
            lambda reply: BrokerHeartbeatResponse(
                is_caught_up=reply.is_caught_up, is_fenced=reply.is_fenced, should_shut_down=reply.should_shut_down
            )
        )

    def _unregister_broker(
        self, context: ControllerRequestContext, request: UnregisterBrokerRequest
    ) -> Deferred[Message]:
        unregister = self._managers.replication.unregister
        done = self.controller.write(lambda: unregister(request.broker_id))
        return done.map(lambda _: UnregisterBrokerResponse(error_message=None))

    def _register_controller(
        self, context: ControllerRequestContext, request: ControllerRegistrationRequest
    ) -> Deferred[Message]:
        done = self.controller.write(lambda: self._managers.cluster.register_controller(request))
        return done.map(lambda _: ControllerRegistrationResponse(error_message=None))

    def _allocate_producer_ids(
        self, context: ControllerRequestContext, request: AllocateProducerIdsRequest
    ) -> Deferred[Message]:
        generate = self._managers.producer_ids.generate_next_block
        block = self.controller.write(lambda: generate(request.broker_id, request.broker_epoch))
        return block.map(
            lambda found: AllocateProducerIdsResponse(producer_id_start=found.first, producer_id_len=found.size)
        )

    def _describe_cluster(
        self, context: ControllerRequestContext, request: DescribeClusterRequest
    ) -> Deferred[Message]:
        """Answer with the controllers, which have no id of a broker among them (KIP-919)."""
        if request.endpoint_type != EndpointType.CONTROLLER:
            is_known = request.endpoint_type == EndpointType.BROKER
            wrong = errors.MismatchedEndpointTypeError if is_known else errors.UnsupportedEndpointTypeError
            raise wrong("This listener describes controllers only.")
        image = self.controller.committed_image
        nodes = [
            DescribeClusterBroker(broker_id=found.id, host=endpoint.host, port=endpoint.port)
            for found in image.controllers.values()
            if (endpoint := found.listeners.get(self._identity.listener)) is not None
        ]
        leader = self.controller.leader_id
        response = DescribeClusterResponse(
            endpoint_type=EndpointType.CONTROLLER,
            cluster_id=self._identity.cluster_id,
            controller_id=-1 if leader is None else leader,
            brokers=nodes,
        )
        return Deferred.of(response)

    # -- topics ------------------------------------------------------------------------------------------------------

    def _create_topics(self, context: ControllerRequestContext, request: CreateTopicsRequest) -> Deferred[Message]:
        times = Counter(topic.name for topic in request.topics)
        refusals = [_refused_topic(name, "Duplicate topic name.") for name, count in times.items() if count > 1]
        if times[CLUSTER_METADATA_TOPIC] == 1:
            text = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
            refusals.append(_refused_topic(CLUSTER_METADATA_TOPIC, text))
        wanted = [topic for topic in request.topics if times[topic.name] == 1 and topic.name != CLUSTER_METADATA_TOPIC]
        effective = CreateTopicsRequest(wanted, request.timeout_ms, request.validate_only)
        describable = {topic.name for topic in wanted if context.may_describe_configs(topic.name)}
        create = self._managers.topics.create_topics
        done = self.controller.write(lambda: create(context, effective, describable))

        def with_refusals(response: CreateTopicsResponse) -> Message:
            response.topics += refusals
            return response

        return done.map(with_refusals)

    def _delete_topics(self, context: ControllerRequestContext, request: DeleteTopicsRequest) -> Deferred[Message]:
        names = [*request.topic_names] if context.api_version < _BY_ID_FROM else []
        ids: list[bytes] = []
        results: list[DeletableTopicResult] = []
        for state in request.topics:
            if state.name is not None and state.topic_id != ZERO_UUID:
                text = "You may not specify both topic name and topic id."
                results.append(_refused_deletion(state.name, state.topic_id, text))
            elif state.name is not None:
                names.append(state.name)
            elif state.topic_id == ZERO_UUID:
                results.append(_refused_deletion(None, ZERO_UUID, "Neither topic name nor id were specified."))
            else:
                ids.append(state.topic_id)
        doomed = self._doomed(names, ids, results)
        delete = self._managers.topics.delete_topics

        def answer(outcomes: dict[bytes, Outcome]) -> Message:
            for topic_id, outcome in outcomes.items():
                results.append(DeletableTopicResult(doomed[topic_id], topic_id, outcome.code, outcome.message))
            return DeleteTopicsResponse(responses=results)

        return self.controller.write(lambda: delete(context, doomed)).map(answer)

    def _doomed(
        self, names: Sequence[str], ids: Sequence[bytes], results: list[DeletableTopicResult]
    ) -> dict[bytes, str]:
        """Return the topics to delete, by id; `results` gets the refusals of all others."""
        image = self.controller.committed_image
        doomed: dict[bytes, str] = {}
        for topic_id, count in Counter(ids).items():
            if count > 1:
                results.append(_refused_deletion(None, topic_id, "Duplicate topic id."))
            elif topic_id not in image.topics:
                unknown = errors.UnknownTopicIdError
                results.append(DeletableTopicResult(None, topic_id, unknown.code, str(unknown())))
            else:
                doomed[topic_id] = image.topics[topic_id].name
        for name, count in Counter(names).items():
            known = image.topic_ids.get(name)
            if count > 1:
                results.append(_refused_deletion(name, ZERO_UUID, "Duplicate topic name."))
            elif known is None:
                missing = errors.UnknownTopicOrPartitionError
                results.append(DeletableTopicResult(name, ZERO_UUID, missing.code, str(missing())))
            elif known in ids:
                doomed.pop(known, None)
                text = "The provided topic name maps to an ID that was already supplied."
                results.append(_refused_deletion(name, known, text))
            else:
                doomed[known] = name
        return doomed

    def _create_partitions(
        self, context: ControllerRequestContext, request: CreatePartitionsRequest
    ) -> Deferred[Message]:
        times = Counter(topic.name for topic in request.topics)
        code = errors.InvalidRequestError.code
        results = [
            CreatePartitionsTopicResult(name, code, "Duplicate topic name.")
            for name, count in times.items()
            if count > 1
        ]
        topics = [topic for topic in request.topics if times[topic.name] == 1]

        def operation() -> ControllerResult[list[Outcome]]:
            result = self._managers.topics.create_partitions(context, topics)
            return result.without_records() if request.validate_only else result

        def answer(outcomes: list[Outcome]) -> Message:
            for topic, outcome in zip(topics, outcomes, strict=True):
                results.append(CreatePartitionsTopicResult(topic.name, outcome.code, outcome.message))
            return CreatePartitionsResponse(results=results)

        return self.controller.write(operation).map(answer)

    def _alter_partition(self, context: ControllerRequestContext, request: AlterPartitionRequest) -> Deferred[Message]:
        alter = self._managers.alter_partition.alter_partition
        return self.controller.write(lambda: alter(request, context.api_version)).map(_as_message)

    def _assign_replicas(
        self, context: ControllerRequestContext, request: AssignReplicasToDirsRequest
    ) -> Deferred[Message]:
        assign = self._managers.alter_partition.assign_replicas_to_dirs
        return self.controller.write(lambda: assign(request)).map(_as_message)

    def _elect_leaders(self, context: ControllerRequestContext, request: ElectLeadersRequest) -> Deferred[Message]:
        return self.controller.write(lambda: self._managers.replication.elect_leaders(request)).map(_as_message)

    def _alter_reassignments(
        self, context: ControllerRequestContext, request: AlterPartitionReassignmentsRequest
    ) -> Deferred[Message]:
        return self.controller.write(lambda: self._managers.reassignments.alter(request)).map(_as_message)

    def _list_reassignments(
        self, context: ControllerRequestContext, request: ListPartitionReassignmentsRequest
    ) -> Deferred[Message]:
        return Deferred.of(list_reassignments(self.controller.committed_image, request.topics))


def _as_message(response: Message) -> Message:
    return response


def _refused_topic(name: str, text: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=errors.InvalidRequestError.code, error_message=text)


def _refused_deletion(name: str | None, topic_id: bytes, text: str) -> DeletableTopicResult:
    return DeletableTopicResult(name, topic_id, errors.InvalidRequestError.code, text)


def _of_settings(
    answer: settings_apis.Answer,
) -> Callable[[ControllerApis, ControllerRequestContext, Any], Deferred[Message]]:
    return lambda apis, context, request: answer(apis.controller, context, request)


# A row takes the request of its API; only the table does not tell them apart.
_HANDLERS: dict[int, Callable[[ControllerApis, ControllerRequestContext, Any], Deferred[Message]]] = {
    ApiKey.CREATE_TOPICS: ControllerApis._create_topics,
    ApiKey.DELETE_TOPICS: ControllerApis._delete_topics,
    ApiKey.CREATE_PARTITIONS: ControllerApis._create_partitions,
    ApiKey.ELECT_LEADERS: ControllerApis._elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ControllerApis._alter_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ControllerApis._list_reassignments,
    ApiKey.ALTER_PARTITION: ControllerApis._alter_partition,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ControllerApis._assign_replicas,
    ApiKey.DESCRIBE_CLUSTER: ControllerApis._describe_cluster,
    ApiKey.BROKER_REGISTRATION: ControllerApis._register_broker,
    ApiKey.BROKER_HEARTBEAT: ControllerApis._heartbeat,
    ApiKey.UNREGISTER_BROKER: ControllerApis._unregister_broker,
    ApiKey.CONTROLLER_REGISTRATION: ControllerApis._register_controller,
    ApiKey.ALLOCATE_PRODUCER_IDS: ControllerApis._allocate_producer_ids,
    **{key: _of_settings(answer) for key, answer in settings_apis.ANSWERS.items()},
}
