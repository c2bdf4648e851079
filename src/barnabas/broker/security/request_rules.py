"""What each API asks of a principal, and what those are told who may not: one row for each, none can be forgotten.

A row is a rule: it looks at the request before its handler does, answers in its place, leaves out what is not allowed,
or changes the response. The rows are those of Kafka's KafkaApis and ControllerApis; what they come to is held against
the answers of an Apache Kafka (`tests/vectors`). Without an authorizer, none is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from barnabas import errors
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.security import (
    config_rules,
    group_rules,
    share_rules,
    streams_rules,
    topic_rules,
    transaction_rules,
)
from barnabas.broker.security.authorizable_request import CLUSTER_DENIED, Asked, Verdict
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import ResourceType

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
    from barnabas.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
    from barnabas.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest

# A rule takes the request of its API, or of all that have the same; only the table does not tell them apart.
Rule: TypeAlias = Callable[[Asked[Any]], Verdict]


def _nothing(asked: Asked[Any]) -> Verdict:
    return None


def cluster(*operations: Op) -> Rule:
    """Return the rule that any of the operations on the cluster is needed."""

    def rule(asked: Asked[Any]) -> Verdict:
        if any(asked.may_cluster(operation, tell=operation == operations[-1]) for operation in operations):
            return None
        return asked.refuse(CLUSTER_DENIED)

    return rule


def _describe_users(asked: Asked[DescribeUserScramCredentialsRequest]) -> Verdict:
    """Refuse who may not describe the cluster, as Kafka does: once for all, and for each user without the name."""
    from barnabas.protocol.messages.describe_user_scram_credentials_response import (
        DescribeUserScramCredentialsResponse,
        DescribeUserScramCredentialsResult,
    )

    if asked.may_cluster(Op.DESCRIBE):
        return None
    refusal = asked.refuse(CLUSTER_DENIED)
    assert isinstance(refusal, DescribeUserScramCredentialsResponse)
    refusal.results = [
        DescribeUserScramCredentialsResult(error_code=CLUSTER_DENIED, error_message=None)
        for _ in asked.request.users or ()
    ]
    return refusal


def _move_logs(asked: Asked[AlterReplicaLogDirsRequest]) -> Verdict:
    """Refuse by partition, as the response is made: the request names them by directory."""
    from barnabas.protocol.messages.alter_replica_log_dirs_response import (
        AlterReplicaLogDirPartitionResult,
        AlterReplicaLogDirsResponse,
        AlterReplicaLogDirTopicResult,
    )

    if asked.may_cluster(Op.ALTER):
        return None
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=CLUSTER_DENIED)
                    for index in topic.partitions
                ],
            )
            for directory in asked.request.dirs
            for topic in directory.topics
        ]
    )


def _create_token(asked: Asked[CreateDelegationTokenRequest]) -> Verdict:
    from barnabas.broker.handlers.create_delegation_token import owner_of, refusal
    from barnabas.broker.security.delegation_tokens import may_ask

    context, request = asked.context, asked.request
    owner = owner_of(context, request)
    # Where the connection makes no tokens at all, the handler says so.
    is_own = owner == context.connection.principal or not may_ask(context.connection)
    if is_own or asked.may(Op.CREATE_TOKENS, ResourceType.USER, owner):
        return None
    return refusal(context, request, errors.DelegationTokenAuthorizationError)


RULES: dict[int, Rule] = {
    ApiKey.PRODUCE: transaction_rules.produce,
    ApiKey.FETCH: topic_rules.fetch,
    ApiKey.LIST_OFFSETS: topic_rules.each("topics", "topics", Op.DESCRIBE),
    ApiKey.METADATA: topic_rules.metadata,
    ApiKey.OFFSET_COMMIT: group_rules.offset_commit,
    ApiKey.OFFSET_FETCH: group_rules.offset_fetch,
    ApiKey.FIND_COORDINATOR: group_rules.find_coordinator,
    ApiKey.JOIN_GROUP: group_rules.one(Op.READ),
    ApiKey.HEARTBEAT: group_rules.one(Op.READ),
    ApiKey.LEAVE_GROUP: group_rules.one(Op.READ),
    ApiKey.SYNC_GROUP: group_rules.one(Op.READ),
    ApiKey.DESCRIBE_GROUPS: group_rules.each("groups", "groups", Op.DESCRIBE),
    ApiKey.LIST_GROUPS: group_rules.list_groups,
    ApiKey.SASL_HANDSHAKE: _nothing,
    ApiKey.API_VERSIONS: _nothing,
    ApiKey.CREATE_TOPICS: topic_rules.create_topics,
    ApiKey.DELETE_TOPICS: topic_rules.delete_topics,
    ApiKey.DELETE_RECORDS: topic_rules.each("topics", "topics", Op.DELETE),
    ApiKey.INIT_PRODUCER_ID: transaction_rules.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: topic_rules.offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: transaction_rules.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transaction_rules.add_offsets_to_txn,
    ApiKey.END_TXN: transaction_rules.end_txn,
    ApiKey.WRITE_TXN_MARKERS: cluster(Op.ALTER, Op.CLUSTER_ACTION),
    ApiKey.TXN_OFFSET_COMMIT: transaction_rules.txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: cluster(Op.DESCRIBE),
    ApiKey.CREATE_ACLS: cluster(Op.ALTER),
    ApiKey.DELETE_ACLS: cluster(Op.ALTER),
    ApiKey.DESCRIBE_CONFIGS: config_rules.describe_configs,
    ApiKey.ALTER_CONFIGS: config_rules.alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _move_logs,
    ApiKey.DESCRIBE_LOG_DIRS: cluster(Op.DESCRIBE),
    ApiKey.SASL_AUTHENTICATE: _nothing,
    ApiKey.CREATE_PARTITIONS: topic_rules.each("topics", "results", Op.ALTER),
    ApiKey.CREATE_DELEGATION_TOKEN: _create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _nothing,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _nothing,
    # The handler leaves out what may not be seen.
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _nothing,
    ApiKey.DELETE_GROUPS: group_rules.each("groups_names", "results", Op.DELETE),
    ApiKey.ELECT_LEADERS: cluster(Op.ALTER),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: config_rules.alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster(Op.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster(Op.DESCRIBE),
    ApiKey.OFFSET_DELETE: group_rules.offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster(Op.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: cluster(Op.ALTER_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_users,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster(Op.ALTER),
    ApiKey.UPDATE_FEATURES: cluster(Op.ALTER),
    ApiKey.DESCRIBE_CLUSTER: topic_rules.describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: topic_rules.each("topics", "topics", Op.READ),
    ApiKey.DESCRIBE_TRANSACTIONS: transaction_rules.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transaction_rules.list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: group_rules.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: group_rules.consumer_group_describe,
    ApiKey.SHARE_GROUP_HEARTBEAT: group_rules.consumer_group_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: share_rules.share_group_describe,
    ApiKey.SHARE_FETCH: share_rules.one_of_group,
    ApiKey.SHARE_ACKNOWLEDGE: share_rules.one_of_group,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: share_rules.describe_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: share_rules.alter_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: share_rules.delete_offsets,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_rules.heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: streams_rules.describe,
    # What who leads share-partitions asks of the share coordinator.
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: cluster(Op.CLUSTER_ACTION),
    ApiKey.READ_SHARE_GROUP_STATE: cluster(Op.CLUSTER_ACTION),
    ApiKey.WRITE_SHARE_GROUP_STATE: cluster(Op.CLUSTER_ACTION),
    ApiKey.DELETE_SHARE_GROUP_STATE: cluster(Op.CLUSTER_ACTION),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: cluster(Op.CLUSTER_ACTION),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _nothing,
    ApiKey.PUSH_TELEMETRY: _nothing,
    ApiKey.LIST_CONFIG_RESOURCES: cluster(Op.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_QUORUM: cluster(Op.DESCRIBE),
    ApiKey.UNREGISTER_BROKER: cluster(Op.ALTER),
    ApiKey.ADD_RAFT_VOTER: cluster(Op.ALTER),
    ApiKey.REMOVE_RAFT_VOTER: cluster(Op.ALTER),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topic_rules.describe_topic_partitions,
    # Between brokers of a cluster with ZooKeeper.
    ApiKey.LEADER_AND_ISR: cluster(Op.CLUSTER_ACTION),
    ApiKey.STOP_REPLICA: cluster(Op.CLUSTER_ACTION),
    ApiKey.UPDATE_METADATA: cluster(Op.CLUSTER_ACTION),
    ApiKey.CONTROLLED_SHUTDOWN: cluster(Op.CLUSTER_ACTION),
    ApiKey.ALTER_PARTITION: cluster(Op.CLUSTER_ACTION),
    ApiKey.ALLOCATE_PRODUCER_IDS: cluster(Op.CLUSTER_ACTION),
}


def guarded(api_key: int, handle: Handler, rules: Mapping[int, Rule] = RULES) -> Handler:
    """Return a handler that is asked only what its principal may ask. Raises KeyError for an API without a rule."""
    rule = rules[api_key]

    def handle_allowed(
        broker: BrokerState, context: RequestContext, request: Message
    ) -> Message | DelayedOperation | None:
        verdict = rule(Asked(broker, context, request))
        if verdict is None:
            return handle(broker, context, request)
        if not callable(verdict):
            return verdict
        result = handle(broker, context, request)
        if isinstance(result, DelayedOperation):
            context.amend = verdict
            return result
        amended: Message | None = verdict(result)
        return amended

    return handle_allowed
