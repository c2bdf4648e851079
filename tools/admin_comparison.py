"""What Java's admin client offers (tools/java_admin.json), and where it is here, or why it is not.

Names follow from Java's: createTopics is `create_topics`, its option validateOnly the argument `validate_only`, what
TopicDescription.isInternal() gives the attribute `is_internal`. The tables say what has another name, or none.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from barnabas import AdminClient
from tools.java_admin import stored

#: Methods that Java has deprecated, by what takes their place in both.
METHODS = {"listClientMetricsResources": "list_config_resources", "listConsumerGroups": "list_groups"}

#: Options that are another argument here than their name says.
OPTIONS = {
    "AddRaftVoterOptions.setClusterId": "cluster_id",
    "CreateDelegationTokenOptions.maxLifetimeMs": "max_lifetime",
    "CreateDelegationTokenOptions.maxlifeTimeMs": "max_lifetime",
    "ExpireDelegationTokenOptions.expiryTimePeriodMs": "expiry_period",
    "ListConsumerGroupsOptions.inGroupStates": "states",
    "ListConsumerGroupsOptions.inStates": "states",
    "ListConsumerGroupsOptions.withTypes": "types",
    "ListGroupsOptions.forConsumerGroups": "types",
    "ListGroupsOptions.forShareGroups": "types",
    "ListGroupsOptions.forStreamsGroups": "types",
    "ListGroupsOptions.inGroupStates": "states",
    "ListGroupsOptions.withProtocolTypes": "protocol_types",
    "ListGroupsOptions.withTypes": "types",
    "ListOffsetsOptions.new(IsolationLevel)": "isolation_level",
    "ListTopicsOptions.listInternal": "include_internal",
    "ListTransactionsOptions.filterOnDuration": "longer_than",
    "ListTransactionsOptions.filterOnTransactionalIdPattern": "transactional_id_pattern",
    "ListTransactionsOptions.filterProducerIds": "producer_ids",
    "ListTransactionsOptions.filterStates": "states",
    "RemoveMembersFromConsumerGroupOptions.new(MemberToRemove)": "members",
    "RemoveRaftVoterOptions.setClusterId": "cluster_id",
    "RenewDelegationTokenOptions.renewTimePeriodMs": "renew_period",
}

#: Java's classes, by the class here (module.name below barnabas.client.admin, or a whole path).
CLASSES = {
    "AbortTransactionSpec": "transactions.AbortTransactionSpec",
    "AccessControlEntry": "acls.AclBinding",
    "AccessControlEntryFilter": "acls.AclBindingFilter",
    "AclBinding": "acls.AclBinding",
    "AclBindingFilter": "acls.AclBindingFilter",
    "AlterConfigOp": "configs.AlterConfigOp",
    "ClassicGroupDescription": "groups.GroupDescription",
    "ClientQuotaEntity": "client_quotas.ClientQuotaEntity",
    "ClientQuotaFilterComponent": "client_quotas.ClientQuotaFilterComponent",
    "ConfigEntry": "configs.ConfigEntry",
    "ConfigEntry$ConfigSynonym": "configs.ConfigSynonym",
    "ConfigResource": "configs.ConfigResource",
    "ConsumerGroupDescription": "groups.GroupDescription",
    "ConsumerGroupListing": "groups.GroupListing",
    "CreateTopicsResult": "topics.CreatedTopic",
    "CreateTopicsResult$TopicMetadataAndConfig": "topics.CreatedTopic",
    "DelegationToken": "delegation_tokens.DelegationToken",
    "DescribeClusterResult": "cluster.ClusterDescription",
    "DescribeReplicaLogDirsResult$ReplicaLogDirInfo": "log_dirs.ReplicaLogDirInfo",
    "FeatureMetadata": "cluster.FeatureMetadata",
    "FeatureUpdate": "cluster.FeatureUpdate",
    "FenceProducersResult": "transactions.ProducerIdAndEpoch",
    "FinalizedVersionRange": "cluster.VersionRange",
    "GroupListing": "groups.GroupListing",
    "ListConsumerGroupsResult": "results.FromBrokers",
    "ListGroupsResult": "results.FromBrokers",
    "ListOffsetsResult$ListOffsetsResultInfo": "partition_offsets.ListedOffset",
    "LogDirDescription": "log_dirs.LogDirDescription",
    "MemberDescription": "groups.MemberDescription",
    "MemberToRemove": "groups.MemberToRemove",
    "NewPartitions": "new_topic.NewPartitions",
    "NewTopic": "new_topic.NewTopic",
    "Node": "barnabas.network.node.Node",
    "OffsetAndMetadata": "barnabas.client.consumer.offsets.OffsetAndMetadata",
    "OffsetSpec": "partition_offsets.OffsetSpec",
    "PartitionReassignment": "reassignments.PartitionReassignment",
    "ProducerState": "transactions.ProducerState",
    "QuorumInfo": "quorum.QuorumInfo",
    "QuorumInfo$ReplicaState": "quorum.ReplicaState",
    "RaftVoterEndpoint": "quorum.RaftVoterEndpoint",
    "ReplicaInfo": "log_dirs.ReplicaInfo",
    "ResourcePattern": "acls.AclBinding",
    "ResourcePatternFilter": "acls.AclBindingFilter",
    "ScramCredentialInfo": "scram.ScramCredentialInfo",
    "ShareGroupDescription": "share_and_streams_groups.ShareGroupDescription",
    "ShareMemberDescription": "share_and_streams_groups.ShareMemberDescription",
    "SharePartitionOffsetInfo": "share_and_streams_groups.SharePartitionOffset",
    "StreamsGroupDescription": "share_and_streams_groups.StreamsGroupDescription",
    "StreamsGroupMemberAssignment": "share_and_streams_groups.StreamsAssignment",
    "StreamsGroupMemberAssignment$TaskIds": "share_and_streams_groups.StreamsTask",
    "StreamsGroupMemberDescription": "share_and_streams_groups.StreamsMemberDescription",
    "StreamsGroupMemberDescription$TaskOffset": "share_and_streams_groups.StreamsTask",
    "StreamsGroupSubtopologyDescription": "share_and_streams_groups.StreamsSubtopology",
    "StreamsGroupSubtopologyDescription$TopicInfo": "share_and_streams_groups.StreamsTopic",
    "SupportedVersionRange": "cluster.VersionRange",
    "TokenInformation": "delegation_tokens.DelegationToken",
    "TopicDescription": "topic_descriptions.TopicDescription",
    "TopicListing": "topics.TopicListing",
    "TopicPartitionInfo": "topic_descriptions.TopicPartitionInfo",
    "TopicPartitionReplica": "log_dirs.TopicPartitionReplica",
    "TransactionDescription": "transactions.TransactionDescription",
    "TransactionListing": "transactions.TransactionListing",
    "UserScramCredentialAlteration": "scram.UserScramCredentialUpsertion",
    "UserScramCredentialDeletion": "scram.UserScramCredentialDeletion",
    "UserScramCredentialUpsertion": "scram.UserScramCredentialUpsertion",
}

_A_DICT = "a dict, or what a method takes, stands for this class"
_PLAIN = "a plain value stands for this class"
#: Classes for which there is none, and what stands in their place.
WITHOUT_CLASSES = {
    "ClientMetricsResourceListing": "deprecated in Java; a ConfigResource of type CLIENT_METRICS",
    "ClientQuotaAlteration": _A_DICT,
    "ClientQuotaAlteration$Op": _A_DICT,
    "ClientQuotaFilter": "the arguments `components` and `strict` of `describe_client_quotas`",
    "Config": "a dict of ConfigEntry by name",
    "DeleteAclsResult$FilterResult": "a rule that cannot be deleted is in `errors` of its filter's error",
    "DeletedRecords": "an offset",
    "DescribeProducersResult$PartitionProducerState": "a list of ProducerState",
    "ListConsumerGroupOffsetsSpec": _A_DICT,
    "ListShareGroupOffsetsSpec": _A_DICT,
    "ListStreamsGroupOffsetsSpec": _A_DICT,
    "MemberAssignment": "a list of TopicPartition",
    "NewPartitionReassignment": "a list of brokers",
    "QuorumInfo$Node": "`QuorumInfo.nodes` has the endpoints by id",
    "RecordsToDelete": "an offset",
    "ShareMemberAssignment": "a list of TopicPartition",
    "StreamsGroupMemberDescription$Endpoint": "`user_endpoint` is host and port",
    "TopicCollection": "topics are given by name (str) or id (bytes), in one list",
    "UserScramCredentialsDescription": "a list of ScramCredentialInfo by user",
}

RETURNED_AS_IS = "what the method returns"
#: What Java's results can be asked for and methods here return, as `Results` or as the value itself.
RETURNED = [
    "all",
    "allDescriptions",
    "allTopicIds",
    "allTopicNames",
    "delegationToken",
    "delegationTokens",
    "deletedGroups",
    "describedGroups",
    "description",
    "descriptions",
    "entities",
    "expiryTimestamp",
    "featureMetadata",
    "fencedProducers",
    "listings",
    "lowWatermarks",
    "memberResult",
    "names",
    "namesToListings",
    "partitionResult",
    "partitions",
    "partitionsToOffsetAndMetadata",
    "partitionsToOffsetInfo",
    "quorumInfo",
    "reassignments",
    "result",
    "topicIdValues",
    "topicNameValues",
    "topicResult",
    "users",
    "valid",
]

#: Values that have another name than Java's.
VALUES = {
    "AccessControlEntry.toFilter": "to_filter",
    "AlterConfigOp.configEntry": "value",
    "AlterConfigOp.opType": "op",
    "ClassicGroupDescription.protocol": "protocol_type",
    "ClassicGroupDescription.protocolData": "protocol",
    "ClientQuotaFilterComponent.ofDefaultEntity": "of_default",
    "ClientQuotaFilterComponent.ofEntityType": "of_type",
    "ConsumerGroupDescription.groupState": "state",
    "ConsumerGroupDescription.partitionAssignor": "protocol",
    "ConsumerGroupDescription.targetAssignmentEpoch": "assignment_epoch",
    "ConsumerGroupListing.groupState": "state",
    "CreateTopicsResult$TopicMetadataAndConfig.config": "configs",
    "CreateTopicsResult.config": "configs",
    "DescribeReplicaLogDirsResult$ReplicaLogDirInfo.getCurrentReplicaLogDir": "current_log_dir",
    "DescribeReplicaLogDirsResult$ReplicaLogDirInfo.getCurrentReplicaOffsetLag": "current_offset_lag",
    "DescribeReplicaLogDirsResult$ReplicaLogDirInfo.getFutureReplicaLogDir": "future_log_dir",
    "DescribeReplicaLogDirsResult$ReplicaLogDirInfo.getFutureReplicaOffsetLag": "future_offset_lag",
    "FeatureMetadata.finalizedFeatures": "finalized",
    "FeatureMetadata.finalizedFeaturesEpoch": "finalized_epoch",
    "FeatureMetadata.supportedFeatures": "supported",
    "FenceProducersResult.epochId": "epoch",
    "FinalizedVersionRange.maxVersionLevel": "max_version",
    "FinalizedVersionRange.minVersionLevel": "min_version",
    "GroupListing.groupState": "state",
    "GroupListing.protocol": "protocol_type",
    "MemberDescription.consumerId": "member_id",
    "MemberDescription.upgraded": "is_upgraded",
    "NewPartitions.assignments": "new_assignments",
    "NewPartitions.increaseTo": "total_count",
    "NewTopic.replicasAssignments": "replica_assignments",
    "RaftVoterEndpoint.name": "listener",
    "ResourcePattern.name": "resource_name",
    "ResourcePatternFilter.name": "resource_name",
    "ShareGroupDescription.groupState": "state",
    "ShareGroupDescription.targetAssignmentEpoch": "assignment_epoch",
    "ShareMemberDescription.consumerId": "member_id",
    "StreamsGroupDescription.groupState": "state",
    "StreamsGroupDescription.targetAssignmentEpoch": "assignment_epoch",
    "StreamsGroupMemberAssignment$TaskIds.partitions": "partition",
    "StreamsGroupMemberAssignment.activeTasks": "active",
    "StreamsGroupMemberAssignment.standbyTasks": "standby",
    "StreamsGroupMemberAssignment.warmupTasks": "warmup",
    "StreamsGroupMemberDescription.clientHost": "host",
    "StreamsGroupMemberDescription.instanceId": "group_instance_id",
    "StreamsGroupSubtopologyDescription$TopicInfo.topicConfigs": "configs",
    "TokenInformation.ownerAsString": "owner",
    "TokenInformation.renewersAsString": "renewers",
    "TokenInformation.tokenRequester": "requester",
    "TokenInformation.tokenRequesterAsString": "requester",
    "TopicPartitionInfo.isr": "in_sync_replicas",
    "TransactionDescription.transactionStartTimeMs": "start_time_ms",
    "TransactionDescription.transactionTimeoutMs": "timeout_ms",
    "UserScramCredentialUpsertion.credentialInfo": "mechanism",
}

_BY_BROKER = (
    "a TransactionListing names its `coordinator_id`, and `errors` of what is returned has the brokers that failed"
)
_TRIVIAL = "nothing that the other attributes do not say"
WITHOUT_VALUES = {
    "AclBinding.entry": "an AclBinding has the entry's parts itself",
    "AclBinding.pattern": "an AclBinding has the pattern's parts itself",
    "AclBindingFilter.entryFilter": "an AclBindingFilter has the entry's parts itself",
    "AclBindingFilter.patternFilter": "an AclBindingFilter has the pattern's parts itself",
    "ClientQuotaEntity.isValidEntityType": "the broker says which types it knows",
    "DelegationToken.tokenInfo": "a DelegationToken has its parts itself",
    "ListTransactionsResult.allByBrokerId": _BY_BROKER,
    "ListTransactionsResult.byBrokerId": _BY_BROKER,
    "Node.hasRack": _TRIVIAL,
    "Node.idString": _TRIVIAL,
    "Node.isEmpty": _TRIVIAL,
    "Node.isFenced": "`ClusterDescription.fenced` has the ids of those that are",
    "Node.noNode": "None stands for no broker",
    "OffsetSpec.forTimestamp": "a time in epoch milliseconds stands for itself",
    "StreamsGroupMemberDescription$TaskOffset.offset": "offsets are in a dict by StreamsTask",
    "TokenInformation.ownerOrRenewer": _TRIVIAL,
    "TokenInformation.setExpiryTimestamp": "a token is a value; the broker sets its times",
}

ENUMS = {
    "AclOperation": "acls.AclOperation",
    "AclPermissionType": "acls.AclPermissionType",
    "AlterConfigOp$OpType": "configs.OpType",
    "ClassicGroupState": "groups.GroupState",
    "ConfigEntry$ConfigSource": "configs.ConfigSource",
    "ConfigEntry$ConfigType": "configs.ConfigType",
    "ConfigResource$Type": "configs.ConfigResourceType",
    "ElectionType": "reassignments.ElectionType",
    "EndpointType": "admin_metadata.EndpointType",
    "FeatureUpdate$UpgradeType": "cluster.UpgradeType",
    "GroupState": "groups.GroupState",
    "GroupType": "groups.GroupType",
    "PatternType": "acls.PatternType",
    "ResourceType": "acls.ResourceType",
    "ScramMechanism": "scram.ScramMechanism",
    "TransactionState": "transactions.TransactionState",
}
WITHOUT_ENUMS = {
    "FeatureUpdate$UpgradeType.UNKNOWN": "it cannot be asked for",
    "IsolationLevel.READ_COMMITTED": "the string read_committed, as in the settings of consumers",
    "IsolationLevel.READ_UNCOMMITTED": "the string read_uncommitted, as in the settings of consumers",
}


class Entry(NamedTuple):
    """Something of Java's, such as CreateTopicsOptions.validateOnly; where it is here, and whether that is there.

    `here` is empty where there is none, and `reason` says why.
    """

    java: str
    here: str
    exists: bool
    reason: str = ""


def snake(name: str) -> str:
    """Return the name as Python writes it."""
    return re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name)


def method_name(java: str) -> str:
    """Return what a method of Java's Admin is called here."""
    return METHODS.get(java) or snake(java)


def entries() -> list[Entry]:
    """All that Java's admin client offers."""
    data = stored()
    return [*_methods(data), *_options(data), *_values(data), *_enums(data)]


def _methods(data: dict[str, Any]) -> Iterator[Entry]:
    for java in data["methods"]:
        name = method_name(java)
        yield Entry(java, name, callable(getattr(AdminClient, name, None)))


def _options(data: dict[str, Any]) -> Iterator[Entry]:
    """Each option is an argument of the method that takes the options; all methods take `timeout`."""
    for method, options in data["methods"].items():
        if options is None:
            continue
        name = method_name(method)
        arguments = inspect.signature(getattr(AdminClient, name)).parameters
        for option in sorted({*data["options"][options], "timeoutMs"}):
            java = f"{options}.{option}"
            argument = "timeout" if option == "timeoutMs" else OPTIONS.get(java) or snake(option)
            yield Entry(java, f"{name}({argument}=)", argument in arguments)


def _values(data: dict[str, Any]) -> Iterator[Entry]:
    for short, values in data["values"].items():
        if short.startswith("OffsetSpec$"):
            continue
        for value in values:
            yield _value(short, value)


def _value(short: str, value: str) -> Entry:
    java = f"{short}.{value}"
    reason = WITHOUT_VALUES.get(java) or WITHOUT_CLASSES.get(short)
    if reason is not None:
        return Entry(java, "", False, reason)
    if short.endswith("Result") and value in RETURNED:
        return Entry(java, "", False, RETURNED_AS_IS)
    path = CLASSES[short]
    name = VALUES.get(java) or (value if short != "OffsetSpec" else snake(value).upper())
    name = name if java in VALUES or short == "OffsetSpec" else snake(name)
    return Entry(java, f"{path.rpartition('.')[2]}.{name}", _has(_class(path), name))


def _has(cls: type, name: str) -> bool:
    return hasattr(cls, name) or name in inspect.signature(cls).parameters or name in _attributes(cls)


def _attributes(cls: type) -> set[str]:
    """Return what a constructor sets."""
    return set(re.findall(r"self\.(\w+) = ", inspect.getsource(cls)))


def _enums(data: dict[str, Any]) -> Iterator[Entry]:
    for short, constants in data["enums"].items():
        for constant in constants:
            java = f"{short}.{constant}"
            if java in WITHOUT_ENUMS:
                yield Entry(java, "", False, WITHOUT_ENUMS[java])
            else:
                path = ENUMS[short]
                yield Entry(java, f"{path.rpartition('.')[2]}.{constant}", hasattr(_class(path), constant))


def _class(path: str) -> type:
    module, _, name = path.rpartition(".")
    module = module if module.startswith("barnabas.") else f"barnabas.client.admin.{module}"
    found: type = getattr(importlib.import_module(module), name)
    return found


def unused() -> set[str]:
    """Return the rows of the tables that stand for nothing of Java's."""
    data = stored()
    java = {entry.java for entry in entries()}
    rows = {*METHODS, *OPTIONS, *VALUES, *WITHOUT_VALUES, *WITHOUT_ENUMS}
    classes = {*CLASSES, *WITHOUT_CLASSES} - set(data["values"]) | set(ENUMS) - set(data["enums"])
    returned = {entry.java.rpartition(".")[2] for entry in entries() if entry.reason == RETURNED_AS_IS}
    return (rows - java) | classes | (set(RETURNED) - returned)
