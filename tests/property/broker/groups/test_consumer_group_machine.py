"""Random lives of consumer groups: no partition has two owners, the log says all, and in the end all is assigned."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas import errors
from barnabas.broker.groups.consumer_group import ConsumerGroup
from tests.unit.broker.groups.consumer.consumer_group_harness import Consumer, ConsumerHarness
from tests.unit.broker.groups.harness import GROUP

TOPICS = ["t", "u", "v"]
MEMBERS = st.integers(0, 4)
#: Told to give up everything and to join again; an empty group without offsets is swept away in time.
FENCED = (errors.UnknownMemberIdError, errors.FencedMemberEpochError, errors.GroupIdNotFoundError)


class ConsumerGroups(RuleBasedStateMachine):
    """Five members, two of them static, that come, go, hang, lose answers and change their minds."""

    @initialize(interval=st.sampled_from([0, 1000]), seed=st.integers(0, 1000))
    def start(self, interval: int, seed: int) -> None:
        self.harness = ConsumerHarness(seed=seed, group_consumer_assignment_interval_ms=interval)
        self.members: dict[int, Consumer] = {}
        self.incarnations = 0
        #: Members whose next heartbeat has to say everything.
        self.lost_answers: set[str] = set()
        for topic, count in zip(TOPICS[:2], (4, 3), strict=True):
            self.harness.topic(topic, count)

    # --- members

    @rule(
        number=MEMBERS,
        topics=st.lists(st.sampled_from(TOPICS), unique=True),
        regex=st.sampled_from([None, ".", "[uv]"]),
    )
    def join(self, number: int, topics: list[str], regex: str | None) -> None:
        if number in self.members:
            return
        self.incarnations += 1
        instance = f"i{number}" if number < 2 else None
        assignor = "range" if number == 4 else None
        member = Consumer(
            self.harness, f"m{self.incarnations}", topics, regex=regex, instance=instance, assignor=assignor
        )
        try:
            member.join()
        except errors.UnreleasedInstanceIdError:
            return  # the one before has died, and its session has not ended yet
        self.members[number] = member

    @rule(number=MEMBERS, full=st.booleans(), acknowledges=st.booleans())
    def heartbeat(self, number: int, full: bool, acknowledges: bool) -> None:
        member = self.members.get(number)
        if member is None:
            return
        if not acknowledges and not full:
            self.send(number, topic_partitions=None)
            member._reported = None  # it will say later what it has
        else:
            self.send(number, full=full)

    def send(self, number: int, **fields: object) -> None:
        member = self.members[number]
        if member.id in self.lost_answers:
            self.lost_answers.remove(member.id)
            fields = {**fields, "full": True}
        try:
            member.heartbeat(**fields)
        except FENCED:
            try:
                member.join()
            except errors.UnreleasedInstanceIdError:
                del self.members[number]
        except errors.FencedInstanceIdError:
            del self.members[number]

    @rule(number=MEMBERS)
    def lose_an_answer(self, number: int) -> None:
        member = self.members.get(number)
        if member is None:
            return
        epoch, owned = member.epoch, member.owned
        self.send(number)
        if self.members.get(number) is member and member.epoch > 0 and epoch > 0:
            member.epoch, member.owned = epoch, owned
            self.lost_answers.add(member.id)

    @rule(number=MEMBERS, topics=st.lists(st.sampled_from(TOPICS), unique=True))
    def subscribe(self, number: int, topics: list[str]) -> None:
        if number in self.members:
            self.members[number].topics = topics
            self.send(number, subscribed_topic_names=topics)

    @rule(number=MEMBERS, epoch=st.sampled_from([-1, -2, None]))
    def go(self, number: int, epoch: int | None) -> None:
        """Leave, leave for a while (static members), or die."""
        member = self.members.pop(number, None)
        if member is None or epoch is None:
            return
        try:
            member.leave(-1 if member.instance is None else epoch)
        except (*FENCED, errors.FencedInstanceIdError):
            pass

    # --- the world

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(1, 2))
    def enlarge(self, topic: str, more: int) -> None:
        known = self.harness.topics.topic(topic)
        self.harness.topic(topic, more if known is None else known.partitions + more)

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic: str) -> None:
        if self.harness.topics.topic(topic) is not None:
            self.harness.delete_topic(topic)

    @rule(seconds=st.sampled_from([0.5, 5.0, 20.0, 46.0, 61.0]))
    def wait(self, seconds: float) -> None:
        self.harness.advance(seconds)

    @rule(compacts=st.booleans())
    def restart(self, compacts: bool) -> None:
        before = facts(self.harness)
        if compacts and self.harness.storage.records:
            self.harness.storage.compact()
        self.harness.restart()
        assert facts(self.harness) == before

    # --- what holds

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = found(self.harness) if hasattr(self, "harness") else None
        if group is None:
            return
        owned = [
            (topic_id, index)
            for member in group.members.values()
            for held in (member.assigned, member.pending_revocation)
            for topic_id, indexes in held.items()
            for index in indexes
        ]
        assert len(owned) == len(set(owned))

    @invariant()
    def members_have_epochs_of_their_group(self) -> None:
        group = found(self.harness) if hasattr(self, "harness") else None
        if group is not None:
            assert group.target_epoch <= group.epoch
            assert all(member.member_epoch <= group.target_epoch for member in group.members.values())
            assert group.targets.keys() <= group.members.keys()

    def teardown(self) -> None:
        if not hasattr(self, "harness"):
            return
        for _ in range(12):
            self.harness.advance(5.0)
            for number in list(self.members):
                self.send(number)
        group = found(self.harness)
        if group is None or not group.members:
            return
        assert group.state_name == "Stable"
        assert set(group.members) == {member.id for member in self.members.values()}
        check_all_is_assigned(self.harness, list(self.members.values()), group)


def found(harness: ConsumerHarness) -> ConsumerGroup | None:
    return harness.coordinator._store.consumer(GROUP)


def facts(harness: ConsumerHarness) -> object:
    """All that a group consists of."""
    group = found(harness)
    if group is None:
        return None
    return {
        name: getattr(group, name)
        for name in ("epoch", "metadata_hash", "target_epoch", "target_timestamp_ms", "targets", "members", "regexes")
    }


def check_all_is_assigned(harness: ConsumerHarness, members: list[Consumer], group: ConsumerGroup) -> None:
    """Members know what they have, and have everything that they read between them."""
    read = {topic for topic in group.subscribed_topics if harness.topics.topic(topic) is not None}
    given_out = [(topic, index) for member in members for topic, indexes in member.owned.items() for index in indexes]
    expected = [(topic, index) for topic in read for index in range(harness.topics.topic(topic).partitions)]
    assert sorted(given_out) == sorted(expected)
    for member in members:
        allowed = group.topics_of(group.members[member.id])
        assert member.owned.keys() <= allowed


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(
    # Explaining a failure traces every line, which takes minutes here.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
