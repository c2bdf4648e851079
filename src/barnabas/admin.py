"""The values that an `AdminClient` takes and gives, in one place, such as `ConfigResource` and `OffsetSpec`."""

from __future__ import annotations

from barnabas.client.admin.acls import AclBinding, AclBindingFilter
from barnabas.client.admin.client_quotas import ClientQuotaEntity, ClientQuotaFilterComponent, Quotas
from barnabas.client.admin.cluster import ClusterDescription, FeatureMetadata, FeatureUpdate, VersionRange
from barnabas.client.admin.configs import AlterConfigOp, Changes, ConfigEntry, ConfigResource, ConfigSynonym
from barnabas.client.admin.delegation_tokens import DelegationToken
from barnabas.client.admin.group_offsets import GroupOffsets
from barnabas.client.admin.groups import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    MemberToRemove,
)
from barnabas.client.admin.log_dirs import LogDirDescription, ReplicaInfo, ReplicaLogDirInfo, TopicPartitionReplica
from barnabas.client.admin.new_topic import NewPartitions, NewTopic
from barnabas.client.admin.partition_offsets import ListedOffset, OffsetSpec
from barnabas.client.admin.quorum import QuorumInfo, RaftVoterEndpoint, ReplicaState
from barnabas.client.admin.reassignments import PartitionReassignment
from barnabas.client.admin.results import FromBrokers, PartialFailureError, Results
from barnabas.client.admin.scram import (
    ScramAlteration,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from barnabas.client.admin.share_and_streams_groups import (
    ShareGroupDescription,
    ShareMemberDescription,
    ShareOffsets,
    SharePartitionOffset,
    StreamsAssignment,
    StreamsGroupDescription,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTask,
    StreamsTopic,
)
from barnabas.client.admin.topic_descriptions import TopicDescription, TopicPartitionInfo
from barnabas.client.admin.topics import CreatedTopic, TopicKey, TopicListing
from barnabas.client.admin.transactions import (
    AbortTransactionSpec,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.network.node import Node
from barnabas.protocol.kinds import (
    AclOperation,
    AclPermissionType,
    ConfigResourceType,
    ConfigSource,
    ConfigType,
    ElectionType,
    EndpointType,
    OpType,
    PatternType,
    ResourceType,
    UpgradeType,
)
from barnabas.protocol.producer_identity import ProducerIdAndEpoch

__all__ = [
    "AbortTransactionSpec",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AlterConfigOp",
    "Changes",
    "ClientQuotaEntity",
    "ClientQuotaFilterComponent",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "EndpointType",
    "FeatureMetadata",
    "FeatureUpdate",
    "FromBrokers",
    "GroupDescription",
    "GroupListing",
    "GroupOffsets",
    "GroupState",
    "GroupType",
    "ListedOffset",
    "LogDirDescription",
    "MemberDescription",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetSpec",
    "OpType",
    "PartialFailureError",
    "PartitionReassignment",
    "PatternType",
    "ProducerIdAndEpoch",
    "ProducerState",
    "QuorumInfo",
    "Quotas",
    "RaftVoterEndpoint",
    "ReplicaInfo",
    "ReplicaLogDirInfo",
    "ReplicaState",
    "ResourceType",
    "Results",
    "ScramAlteration",
    "ScramCredentialInfo",
    "ScramMechanism",
    "ShareGroupDescription",
    "ShareMemberDescription",
    "ShareOffsets",
    "SharePartitionOffset",
    "StreamsAssignment",
    "StreamsGroupDescription",
    "StreamsMemberDescription",
    "StreamsSubtopology",
    "StreamsTask",
    "StreamsTopic",
    "TopicDescription",
    "TopicKey",
    "TopicListing",
    "TopicPartitionInfo",
    "TopicPartitionReplica",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpgradeType",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "VersionRange",
]
