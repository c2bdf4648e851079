"""What an application's group tells of its progress, and where the next run begins by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.client.consumer.auto_offset_reset_strategy import EARLIEST, LATEST, AutoOffsetResetStrategy
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import ConfigError, KafkaError, NoOffsetForPartitionError, UnknownMemberIdError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.exactly_once.decision import COMPLETE, Decision, TaskState, TaskTransaction
from barnabas.spark.offsets import CLOCK
from barnabas.streams import Consumed, StreamsBuilder, Topology
from barnabas.streams.config import StreamsConfig
from barnabas.streams.spark import query_plan, read_positions, starting_offsets
from barnabas.streams.spark.group_offsets import METADATA, GroupOffsets, Standing

IN, BETWEEN = TopicPartition("in", 0), TopicPartition("app-x-repartition", 0)


class Cluster:
    """Keeps what it is asked."""

    def __init__(self, committed: dict[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        self.committed = committed or {}
        self.deleted: list[Mapping[TopicPartition, int]] = []
        self.commits = 0
        self.error: KafkaError | None = None
        #: Where all partitions end for readers of all records, and of committed ones.
        self.ends: dict[str, int] = {}

    def alter_consumer_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, Any]) -> None:
        if self.error is not None:
            raise self.error
        self.commits += 1
        self.committed |= {
            each: OffsetAndMetadata(offset) if isinstance(offset, int) else offset for each, offset in offsets.items()
        }

    def list_consumer_group_offsets(self, group_id: str, partitions: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        return {each: self.committed[each] for each in partitions if each in self.committed}

    def list_offsets(
        self, specs: Mapping[TopicPartition, int], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, Any]:
        if self.ends:
            return {each: SimpleNamespace(offset=self.ends[isolation_level]) for each in specs}
        # The records are of the times 0 to 6,900, a hundred apart.
        found = {each: {-2: 0, -1: 70}.get(spec, -(-spec // 100)) for each, spec in specs.items()}
        return {each: SimpleNamespace(offset=offset if offset <= 70 else -1) for each, offset in found.items()}

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        self.deleted.append(before)

    def close(self) -> None:
        pass


def query(**offsets: int) -> Any:
    end = {"in": {"0": offsets["read"]}, BETWEEN.topic: {"0": offsets["between"]}, CLOCK: {"0": 123}}
    return SimpleNamespace(id="q1", lastProgress=SimpleNamespace(sources=[SimpleNamespace(endOffset=json.dumps(end))]))


def followed(cluster: Cluster, now: list[float]) -> GroupOffsets:
    return GroupOffsets(lambda: cluster, "app", frozenset({BETWEEN.topic}), 30.0, lambda: now[0])


def test_each_finished_batch_is_committed_once_with_the_id_of_its_query() -> None:
    cluster = Cluster()
    offsets = followed(cluster, [0.0])

    for _ in range(3):
        offsets.follow(query(read=5, between=3))

    assert cluster.commits == 1
    assert {each: (at.offset, at.metadata) for each, at in cluster.committed.items()} == {
        IN: (5, f"{METADATA}q1"),
        BETWEEN: (3, f"{METADATA}q1"),
    }


def test_a_commit_that_fails_is_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.error = UnknownMemberIdError("the group has members")
    offsets = followed(cluster, [0.0])
    for _ in range(3):
        offsets.follow(query(read=5, between=3))
    cluster.error = None

    offsets.follow(query(read=5, between=3))

    assert caplog.text.count("the group has members") == 1
    assert cluster.committed[IN].offset == 5


def test_only_repartition_topics_are_purged_and_only_up_to_what_is_committed() -> None:
    now, cluster = [0.0], Cluster()
    offsets = followed(cluster, now)
    offsets.follow(query(read=5, between=3))
    now[0] = 29.0
    offsets.follow(query(read=6, between=4))
    assert cluster.deleted == []

    now[0] = 31.0
    offsets.follow(query(read=6, between=4))
    cluster.error = UnknownMemberIdError("no")
    now[0] = 70.0
    offsets.follow(query(read=9, between=9))

    assert cluster.deleted == [{BETWEEN: 4}], "what is not committed stays"


class Batches:
    """What the batches of a query tell."""

    def __init__(self, between: int) -> None:
        self.standing = Standing({BETWEEN: between, IN: 3}, 2, frozenset({BETWEEN.topic}))
        self.looks: list[Standing] = []

    def __call__(self) -> Standing:
        return self.looks.pop() if self.looks else self.standing


def within(read: int) -> Any:
    """Return a query whose source knows of one topic only."""
    end = {"in": {"0": read}, CLOCK: {"0": 123}}
    return SimpleNamespace(id="q1", lastProgress=SimpleNamespace(sources=[SimpleNamespace(endOffset=json.dumps(end))]))


def test_topics_that_are_read_within_the_batch_are_committed_as_the_decision_says_and_past_their_markers() -> None:
    now, cluster, batches = [0.0], Cluster(), Batches(between=8)
    offsets = followed(cluster, now)
    cluster.ends = {"read_committed": 8, "read_uncommitted": 9}

    offsets.follow(within(read=5), batches)
    assert {each: at.offset for each, at in cluster.committed.items()} == {IN: 5, BETWEEN: 8}, "a marker is to come"

    cluster.ends = {"read_committed": 9, "read_uncommitted": 9}
    offsets.follow(within(read=5), batches)
    now[0] = 31.0
    offsets.follow(within(read=5), batches)

    assert cluster.committed[BETWEEN].offset == 9, "the marker is no lag"
    assert cluster.deleted == [{BETWEEN: 8}], "a reader begins there"


def test_a_marker_that_comes_after_it_was_looked_is_no_lag_for_long() -> None:
    """A transaction that wrote nothing to a partition may leave one there: its topic was deleted and made again."""
    cluster, batches = Cluster(), Batches(between=8)
    offsets = followed(cluster, [0.0])
    cluster.ends = {"read_committed": 9, "read_uncommitted": 9}
    offsets.follow(within(read=5), batches)

    cluster.ends = {"read_committed": 10, "read_uncommitted": 10}
    for _ in range(100):
        offsets.follow(within(read=5), batches)

    assert cluster.committed[BETWEEN].offset == 10
    assert cluster.commits == 2


def test_what_another_batch_has_written_since_is_not_taken_for_markers() -> None:
    cluster, batches = Cluster(), Batches(between=8)
    cluster.ends = {"read_committed": 12, "read_uncommitted": 12}
    offsets = followed(cluster, [0.0])
    batches.looks = [batches.standing._replace(turns=3), batches.standing]

    offsets.follow(within(read=5), batches)
    assert cluster.committed[BETWEEN].offset == 8

    batches.standing = batches.standing._replace(turns=3)
    offsets.follow(within(read=5), batches)
    assert cluster.committed[BETWEEN].offset == 8, "a batch is being computed"


@pytest.mark.parametrize("is_committed_only", [True, False])
def test_what_waits_for_the_next_batch_is_not_committed_at_rest(is_committed_only: bool) -> None:
    """Its reader comes a batch later, or another application takes over: both begin where the group stands."""
    cluster, batches = Cluster(), Batches(between=3)
    batches.standing = batches.standing._replace(whole=frozenset())
    cluster.ends = {"read_committed": 12, "read_uncommitted": 12}
    offsets = followed(cluster, [0.0])

    offsets.follow(query(read=5, between=3) if is_committed_only else within(read=5), batches)

    assert cluster.committed[BETWEEN].offset == 3


def test_where_the_option_was_switched_off_what_was_read_before_stays_committed() -> None:
    cluster, batches = Cluster(), Batches(between=8)
    offsets = followed(cluster, [0.0])
    batches.standing = batches.standing._replace(turns=3)

    offsets.follow(query(read=5, between=3), batches)

    assert cluster.committed[BETWEEN].offset == 8


def settled(cluster: Cluster, policy: str = "latest", **decided: Any) -> Any:
    counts = {"in": 1, BETWEEN.topic: 1}
    policies = {"in": AutoOffsetResetStrategy.parse(policy), BETWEEN.topic: EARLIEST}
    ends = lambda query: decided.get(query, {})  # noqa: E731
    return starting_offsets.commit_missing(cluster, "app", counts, policies, ends, 7000)  # type: ignore[arg-type]


def test_a_partition_without_an_offset_begins_where_the_policy_says() -> None:
    assert settled(Cluster({IN: OffsetAndMetadata(7)})) == {BETWEEN: 0}
    assert settled(Cluster()) == {IN: 70, BETWEEN: 0}
    with pytest.raises(NoOffsetForPartitionError, match="in-0"):
        settled(Cluster({BETWEEN: OffsetAndMetadata(7)}), policy="none")


@pytest.mark.parametrize(("back", "offset"), [("PT2S", 50), ("PT0.5S", 65), ("PT0S", 70), ("PT7S", 0)])
def test_a_policy_by_duration_goes_back_from_now_and_to_the_end_where_nothing_is_so_young(
    back: str, offset: int
) -> None:
    assert settled(Cluster(), policy=f"by_duration:{back}") == {IN: offset, BETWEEN: 0}


TWO_SECONDS = AutoOffsetResetStrategy("by_duration", 2000)


@pytest.mark.parametrize("given", [timedelta(seconds=2), "by_duration:PT2S", TWO_SECONDS])
def test_a_source_s_own_policy_goes_before_the_settings(given: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(auto_offset_reset=given)).group_by(str).count().to_stream().to("out")
    builder.stream("other").to("out")
    plan = query_plan.planned(builder.build(), StreamsConfig({"application.id": "app"}))

    found = starting_offsets.reset_policies(plan.subtopologies.values(), "latest")

    (between,) = plan.repartition_topics
    assert found == {"in": TWO_SECONDS, "other": LATEST, between: EARLIEST}


@pytest.mark.parametrize("given", [timedelta(seconds=-1), "by_duration:-PT1S", "newest", 5])
def test_a_policy_that_cannot_be_is_an_error_where_it_is_given(given: Any) -> None:
    with pytest.raises((ConfigError, TypeError)):
        Consumed(auto_offset_reset=given)
    with pytest.raises((ConfigError, TypeError)):
        Topology().add_source("mine", "in", auto_offset_reset=given)


def test_what_a_query_of_ours_has_decided_beyond_its_commit_is_not_read_again() -> None:
    ours = f"{METADATA}q1"
    cluster = Cluster({IN: OffsetAndMetadata(7, metadata=ours), BETWEEN: OffsetAndMetadata(9, metadata=ours)})

    assert settled(cluster, q1={IN: 12, BETWEEN: 9}) == {IN: 12}
    assert cluster.committed[IN].offset == 12


@pytest.mark.parametrize("metadata", ["", "AQAAAYx=", f"{METADATA}another"])
def test_offsets_that_somebody_else_has_committed_count_as_they_are(metadata: str) -> None:
    cluster = Cluster({IN: OffsetAndMetadata(2, metadata=metadata), BETWEEN: OffsetAndMetadata(9)})

    assert settled(cluster, q1={IN: 12}) == {}


def test_where_tasks_stand_is_what_the_notes_of_all_of_them_say() -> None:
    def state(task: str, **positions: int) -> TaskState:
        note = {"positions": {topic: {task[-1]: end} for topic, end in positions.items()}}
        return TaskState(task, json.dumps(note), {})

    written = TaskTransaction(0, "id", 1, 1, 3, {}, state("0_0", a=5, b=7))
    decision = Decision(4, "r", COMPLETE, (written,), states=(state("0_0", a=1, b=1), state("0_1", a=9)))

    assert read_positions.positions_of(decision) == {
        TopicPartition("a", 0): 5,
        TopicPartition("b", 0): 7,
        TopicPartition("a", 1): 9,
    }


def test_a_query_that_ended_commits_what_it_had_decided_and_had_not_told() -> None:
    cluster = Cluster()
    offsets = followed(cluster, [0.0])
    offsets.follow(query(read=5, between=3))

    offsets.commit_decided(lambda query: {IN: 9, BETWEEN: 2}, "q1")

    assert {each: at.offset for each, at in cluster.committed.items()} == {IN: 9, BETWEEN: 3}
    assert cluster.committed[IN].metadata == f"{METADATA}q1"
    assert cluster.commits == 2


@pytest.mark.parametrize("decided", [{IN: 5}, {}])
def test_nothing_is_committed_where_no_more_was_decided(decided: dict[TopicPartition, int]) -> None:
    cluster = Cluster()
    offsets = followed(cluster, [0.0])
    offsets.follow(query(read=5, between=3))

    offsets.commit_decided(lambda query: decided, "q1")

    assert cluster.commits == 1


def test_decisions_that_cannot_be_read_end_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def unreachable(query: str) -> Any:
        raise KafkaError("nobody is there")

    followed(Cluster(), [0.0]).commit_decided(unreachable, "q1")

    assert "could not read the decisions of the query q1: nobody is there" in caplog.text
