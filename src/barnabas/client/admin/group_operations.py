"""What an admin client does with groups, of every kind, and their offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from barnabas.client.admin.admin_operations import AdminOperations, checked
from barnabas.client.admin.consumer_groups import ConsumerGroupDescribeHandler
from barnabas.client.admin.group_offsets import GroupOffsets, OffsetFetchHandler, commit_offsets, delete_offsets
from barnabas.client.admin.groups import (
    DeleteGroupsHandler,
    DescribeGroupsHandler,
    GroupDescription,
    GroupListing,
    ListGroupsHandler,
    MemberToRemove,
    remove_members,
)
from barnabas.client.admin.results import FromBrokers, Results
from barnabas.client.admin.share_and_streams_groups import (
    DescribeShareGroupsHandler,
    DescribeShareOffsetsHandler,
    DescribeStreamsGroupsHandler,
    ShareGroupDescription,
    ShareOffsets,
    StreamsGroupDescription,
    alter_share_offsets,
    delete_share_offsets,
)
from barnabas.client.arguments import as_by_partition, as_keys, as_mapping, as_partitions, as_text, as_texts
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.client.steps import Steps
from barnabas.errors import GroupIdNotFoundError, UnsupportedVersionError
from barnabas.protocol.topic_partition import TopicPartition


class GroupOperations(AdminOperations):
    """Groups and their offsets."""

    def list_groups(
        self,
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
        protocol_types: Collection[str] = (),
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> FromBrokers[GroupListing]:
        """Return the groups of the cluster by id.

        Only those in one of `states`, of one of `types` or `protocol_types` ("consumer"; "" for groups that
        never had members), if given.
        """
        handler = ListGroupsHandler(
            states=as_texts(states, "states"),
            types=as_texts(types, "types"),
            protocol_types=as_texts(protocol_types, "protocol_types"),
        )
        return self._complete(self._gather_groups(handler, timeout, raise_errors))

    def _gather_groups(
        self, handler: ListGroupsHandler, timeout: float | None, raise_errors: bool
    ) -> Steps[FromBrokers[GroupListing]]:
        results = yield from self._ask_all_brokers(handler, timeout, raise_errors)
        return FromBrokers(results, lambda group: group.group_id)

    def describe_groups(
        self,
        groups: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, GroupDescription]:
        """Return groups with their members and what these are assigned.

        Groups of KIP-848's protocol, and of the classic one with members of any kind. An unknown one is a
        GroupIdNotFoundError; a broker before 4.0 gives it as state DEAD, as in Kafka.
        """
        asked = as_texts(groups, "groups")
        steps = self._describe_groups("describe_groups", asked, include_authorized_operations, timeout, raise_errors)
        return self._complete(steps)

    def describe_consumer_groups(
        self,
        groups: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, GroupDescription]:
        """Return groups of consumers, of both protocols; a group of anything else is an IllegalArgumentError.

        Raises `GroupIdNotFoundError`, `GroupAuthorizationError`, ...

        """
        asked = as_texts(groups, "groups")
        steps = self._describe_groups(
            "describe_consumer_groups", asked, include_authorized_operations, timeout, raise_errors, True
        )
        return self._complete(steps)

    def _describe_groups(
        self,
        name: str,
        asked: list[str],
        operations: bool,
        timeout: float | None,
        raise_errors: bool,
        only_consumers: bool = False,
    ) -> Steps[Results[str, GroupDescription]]:
        deadline = self._deadline(timeout)
        first = ConsumerGroupDescribeHandler(name, include_authorized_operations=operations)
        newer = yield from self._ask(first, asked, deadline)
        # That request knows nothing of classic groups, and older brokers do not know it.
        left = [g for g in asked if isinstance(newer.errors.get(g), (GroupIdNotFoundError, UnsupportedVersionError))]
        second = DescribeGroupsHandler(name, include_authorized_operations=operations, only_consumers=only_consumers)
        classic = yield from self._ask(second, left, deadline)
        found = {group: known[group] for group in asked for known in (newer, classic) if group in known}
        errors = {group: error for group, error in newer.errors.items() if group not in left} | classic.errors
        return checked(Results(found, errors), raise_errors)

    def describe_classic_groups(
        self,
        groups: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, GroupDescription]:
        """Return groups of the classic protocol, with members of any kind, such as workers of Kafka Connect.

        Raises `GroupIdNotFoundError`, `GroupAuthorizationError`, ...

        """
        handler = DescribeGroupsHandler(
            "describe_classic_groups", include_authorized_operations=include_authorized_operations
        )
        return self._run(handler, as_texts(groups, "groups"), timeout, raise_errors)

    def describe_share_groups(
        self,
        groups: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, ShareGroupDescription]:
        """Share groups (KIP-932) with their members.

        Raises `GroupIdNotFoundError`, `GroupAuthorizationError`, ...

        """
        handler = DescribeShareGroupsHandler(include_authorized_operations=include_authorized_operations)
        return self._run(handler, as_texts(groups, "groups"), timeout, raise_errors)

    def describe_streams_groups(
        self,
        groups: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, StreamsGroupDescription]:
        """Return groups of Kafka Streams (KIP-1071) with their topologies, members and tasks.

        Raises `GroupIdNotFoundError`, `GroupAuthorizationError`, ...

        """
        handler = DescribeStreamsGroupsHandler(include_authorized_operations=include_authorized_operations)
        return self._run(handler, as_texts(groups, "groups"), timeout, raise_errors)

    def delete_groups(
        self, groups: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[str, None]:
        """Delete groups of any kind that have no members, with their committed offsets.

        Raises `GroupNotEmptyError`, `GroupIdNotFoundError`, ...

        """
        return self._run(DeleteGroupsHandler(), as_texts(groups, "groups"), timeout, raise_errors)

    # Java has a method for each kind of group; what they ask and what they give is the same.
    delete_consumer_groups = delete_share_groups = delete_streams_groups = delete_groups

    def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: Iterable[MemberToRemove] | None = None,
        *,
        reason: str | None = None,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[MemberToRemove, None]:
        """Make members leave a group, all of them by default.

        Raises `UnknownMemberIdError`, ...

        """
        group_id = as_text(group_id, "group_id")
        wanted = None if members is None else as_keys(members, "members")
        return self._complete(self._remove_members(group_id, wanted, reason, timeout, raise_errors))

    def _remove_members(
        self,
        group_id: str,
        wanted: list[MemberToRemove] | None,
        reason: str | None,
        timeout: float | None,
        raise_errors: bool,
    ) -> Steps[Results[MemberToRemove, None]]:
        if wanted is None:
            name = "remove_members_from_consumer_group"
            described = yield from self._describe_groups(name, [group_id], False, timeout, True, True)
            wanted = [MemberToRemove(m.group_instance_id, m.member_id) for m in described[group_id].members]
        if not wanted:
            return Results({}, {})
        handler = remove_members(wanted, reason)
        return (yield from self._operation_in_parts(handler, group_id, timeout, raise_errors))

    # Their offsets.

    def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> GroupOffsets:
        """Return the committed offsets of a group, of these partitions or of all; those without one are left out.

        `require_stable` waits for transactions that have offsets in them to end.
        """
        group_id = as_text(group_id, "group_id")
        wanted = None if partitions is None else as_partitions(partitions)
        handler = OffsetFetchHandler({group_id: wanted}, require_stable=require_stable)
        return self._run_one(handler, group_id, timeout)

    def list_offsets_of_groups(
        self,
        groups: Mapping[str, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, GroupOffsets]:
        """Return the same of several groups at once; by group the partitions, None for all."""
        wanted = _by_group(groups)
        handler = OffsetFetchHandler(wanted, require_stable=require_stable)
        return self._run(handler, wanted, timeout, raise_errors)

    list_streams_group_offsets = list_offsets_of_groups

    def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Set committed offsets of a group, which must have no members now; create it if there is none.

        Raises `UnknownMemberIdError` (the group has members), ...

        """
        wanted = {
            partition: OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for partition, offset in as_by_partition(offsets, "offsets").items()
        }
        return self._run_in_parts(commit_offsets(wanted), as_text(group_id, "group_id"), timeout, raise_errors)

    alter_streams_group_offsets = alter_consumer_group_offsets

    def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Forget committed offsets of a group, for topics to which no member is subscribed.

        Raises `GroupSubscribedToTopicError`, `GroupIdNotFoundError`, ...

        """
        wanted = as_partitions(partitions)
        return self._run_in_parts(delete_offsets(wanted), as_text(group_id, "group_id"), timeout, raise_errors)

    delete_streams_group_offsets = delete_consumer_group_offsets

    def list_share_group_offsets(
        self,
        groups: Mapping[str, Collection[TopicPartition] | None],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[str, ShareOffsets]:
        """Where share groups start to read; by group the partitions, None for all; those without are left out."""
        wanted = _by_group(groups)
        return self._run(DescribeShareOffsetsHandler(wanted), wanted, timeout, raise_errors)

    def alter_share_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Results[TopicPartition, None]:
        """Set where a share group, which must have no members now, starts to read.

        Raises `GroupNotEmptyError`, `GroupIdNotFoundError`, `UnknownTopicOrPartitionError`, ...

        """
        wanted = as_by_partition(offsets, "offsets")
        return self._run_in_parts(alter_share_offsets(wanted), as_text(group_id, "group_id"), timeout, raise_errors)

    def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Results[str, None]:
        """Forget what a share group, which must have no members now, has read of topics.

        Raises `GroupNotEmptyError`, `GroupIdNotFoundError`, `UnknownTopicOrPartitionError`, ...

        """
        handler = delete_share_offsets(as_texts(topics, "topics"))
        return self._run_in_parts(handler, as_text(group_id, "group_id"), timeout, raise_errors)


def _by_group(groups: Mapping[str, Collection[TopicPartition] | None]) -> dict[str, list[TopicPartition] | None]:
    return {
        as_text(group, "a key of groups"): None if partitions is None else as_partitions(partitions, "groups")
        for group, partitions in as_mapping(groups, "groups").items()
    }
