"""A group of the consumer protocol (KIP-848): members, epochs, the target assignment and who has which partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barnabas import errors
from barnabas.broker.groups.consumer_group_member import AssignedPartitions, ConsumerGroupMember, Partitions
from barnabas.broker.groups.group import CONSUMER, CONSUMER_PROTOCOL_TYPE
from barnabas.broker.groups.modern_group import ModernGroup
from barnabas.broker.groups.topic_image import TopicImage

EMPTY = "Empty"
ASSIGNING = "Assigning"
RECONCILING = "Reconciling"
STABLE = "Stable"


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression stood for at `timestamp_ms`, in `version` of the topics."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup(ModernGroup[ConsumerGroupMember, Partitions]):
    """The state of one consumer group. Its methods change what is in memory only."""

    __slots__ = (
        "_owners",
        "_regex_uses",
        "_static_members",
        "_subscribed_topics",
        "has_partition_metadata_record",
        "regexes",
    )

    TYPE = CONSUMER

    def __init__(self, group_id: str):
        super().__init__(group_id)
        #: Regular expressions of members → their topics.
        self.regexes: dict[str, ResolvedRegex] = {}
        #: Whether a broker before Apache Kafka 4.1 left a record that has to go.
        self.has_partition_metadata_record = False
        self._static_members: dict[str, str] = {}
        self._owners: dict[tuple[bytes, int], str] = {}
        #: Regular expression → how many members subscribe to it.
        self._regex_uses: dict[str, int] = {}
        self._subscribed_topics: frozenset[str] | None = None

    # --- as other groups

    @property
    def state_name(self) -> str:
        """Empty, Assigning, Reconciling or Stable."""
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        reconciled = all(member.is_reconciled_to(self.target_epoch) for member in self.members.values())
        return STABLE if reconciled else RECONCILING

    @property
    def uses_consumer_protocol(self) -> bool:
        """True."""
        return True

    @property
    def listed_protocol_type(self) -> str:
        """Consumer."""
        return CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, by name or by expression."""
        return topic in self.subscribed_topics

    # --- members

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the member that has this group.instance.id now."""
        member_id = self._static_members.get(instance_id) if instance_id is not None else None
        return self.members.get(member_id) if member_id is not None else None

    def put(self, member: ConsumerGroupMember) -> None:
        """Take a member in, or what became of it."""
        old = self.members.get(member.member_id)
        self._release(old)
        self.members[member.member_id] = member
        for key in _keys(member):
            self._owners[key] = member.member_id
        if member.instance_id is not None:
            self._static_members[member.instance_id] = member.member_id
        self._subscription_changed(old, member)

    def remove(self, member_id: str) -> None:
        """Put a member out; its part of the target assignment stays."""
        member = self.members.pop(member_id, None)
        self._release(member)
        instance_id = member.instance_id if member is not None else None
        if instance_id is not None and self._static_members.get(instance_id) == member_id:
            del self._static_members[instance_id]
        self._subscription_changed(member, None)

    def _subscription_changed(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        # Nearly every change of a member is one of its epoch or its partitions; those cost nothing here.
        old_regex = "" if old is None else old.subscribed_topic_regex
        new_regex = "" if new is None else new.subscribed_topic_regex
        if old is None or new is None or old.subscribed_topic_names != new.subscribed_topic_names:
            self._subscribed_topics = None
        if old_regex == new_regex:
            return
        for regex, step in ((old_regex, -1), (new_regex, 1)):
            if regex:
                uses = self._regex_uses.pop(regex, 0) + step
                if uses:
                    self._regex_uses[regex] = uses

    def _release(self, member: ConsumerGroupMember | None) -> None:
        if member is None:
            return
        for key in _keys(member):
            if self._owners.get(key) == member.member_id:
                del self._owners[key]

    def is_free(self, topic_id: bytes, partition: int, for_member: str) -> bool:
        """Whether no other member has the partition, not even one that is to give it up."""
        return self._owners.get((topic_id, partition), for_member) == for_member

    # --- subscriptions

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The names of all topics that members subscribe to, by name or by expression."""
        if self._subscribed_topics is None:
            sets = {member.subscribed_topic_names for member in self.members.values()}
            sets.update(regex.topics for regex in self.regexes.values())
            self._subscribed_topics = frozenset().union(*sets)
        return self._subscribed_topics

    def topics_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Return the names of the topics that a member subscribes to; an expression that was not resolved has none."""
        resolved = self.regexes.get(member.subscribed_topic_regex)
        if resolved is None:
            return member.subscribed_topic_names
        return member.subscribed_topic_names | resolved.topics if member.subscribed_topic_names else resolved.topics

    def topic_ids_of(self, member: ConsumerGroupMember, image: TopicImage) -> frozenset[bytes]:
        """Return the ids of those of its topics that exist."""
        found = (image.topic(name) for name in self.topics_of(member))
        return frozenset(topic.id for topic in found if topic is not None)

    def subscribed_regexes(self) -> set[str]:
        """Return the regular expressions of all members."""
        return set(self._regex_uses)

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Take over what an expression stands for; None: no member uses it any more."""
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved
        self._subscribed_topics = None

    # --- members of the classic protocol

    def classic_members(self) -> list[ConsumerGroupMember]:
        """Return the members that speak the classic protocol."""
        return [member for member in self.members.values() if member.classic is not None]

    def all_classic_except(self, member_ids: set[str]) -> bool:
        """Whether every member but these speaks the classic protocol."""
        return all(member.classic is not None or member.member_id in member_ids for member in self.members.values())

    def supports_classic_protocols(self, protocol_type: str, names: set[str]) -> bool:
        """Whether a member of the classic protocol with these embedded protocols can be in the group."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE or not names:
            return False
        for member in self.classic_members():
            if member.classic is not None:
                names = names & {name for name, _ in member.classic.protocols}
        return bool(names)

    # --- offsets

    def validate_commit_epoch(self, member: ConsumerGroupMember, epoch: int) -> bool:
        """Whether every partition has to be checked too, because the member commits from an earlier epoch (KIP-1251).

        Raises StaleMemberEpochError, or IllegalGenerationError for members of the classic protocol.
        """
        if epoch > member.member_epoch:
            raise stale(member, f"epoch {epoch} is newer than the member's epoch {member.member_epoch}")
        return epoch < member.member_epoch

    def validate_member_epoch(self, member_id: str, epoch: int) -> None:
        """Raise UnknownMemberIdError, or as `validate_epoch`."""
        self.validate_epoch(self.member(member_id), epoch)

    def validate_epoch(self, member: ConsumerGroupMember, epoch: int) -> None:
        """Raise StaleMemberEpochError, or IllegalGenerationError for members of the classic protocol."""
        if epoch != member.member_epoch:
            raise stale(member, f"epoch {epoch} is not the member's epoch {member.member_epoch}")


def stale(member: ConsumerGroupMember, reason: str) -> errors.KafkaError:
    """Return the error for a request from another epoch, in the terms of the member's protocol."""
    error = errors.StaleMemberEpochError if member.classic is None else errors.IllegalGenerationError
    return error(f"Member {member.member_id}: {reason}.")


def _keys(member: ConsumerGroupMember) -> Iterator[tuple[bytes, int]]:
    yield from _flatten(member.assigned)
    yield from _flatten(member.pending_revocation)


def _flatten(partitions: AssignedPartitions) -> Iterator[tuple[bytes, int]]:
    return ((topic_id, partition) for topic_id, indexes in partitions.items() for partition in indexes)
