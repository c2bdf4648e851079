"""What the overview says of a cluster: what is wrong, and what to do."""

from __future__ import annotations

from typing import Any

from barnabas.admin import ClusterDescription, GroupListing, GroupState, GroupType, Node, TopicDescription
from barnabas.admin import TopicPartitionInfo as Info
from barnabas.client.admin.quorum import ActiveController
from barnabas.console.commands import Commands
from barnabas.console.lag_clock import Delay
from barnabas.console.overview import overview
from barnabas.console.sampler import Disk, GroupSample, Point, Sample, lag_of, rates_between
from barnabas.errors import ClusterAuthorizationError, KafkaTimeoutError
from barnabas.protocol.topic_partition import TopicPartition

ONE, TWO = Node(1, "a", 9092, None), Node(2, "b", 9092, "r1")
COMMANDS = Commands(("-b", "a:9092"))


def sample(*partitions: Info, **changed: Any) -> Sample:
    topics = {"t": TopicDescription("t", None, False, list(partitions))}
    cluster = ClusterDescription("id", [TWO, ONE], ONE)
    return Sample(100_000, 0.5, cluster, ActiveController(1, None), topics, {}, {}, {}, ())._replace(**changed)


def texts(found: Sample) -> list[str]:
    return [problem["text"] for problem in overview(found, [], COMMANDS)["problems"]]


def test_a_cluster_that_is_well_has_no_problems() -> None:
    seen = overview(sample(Info(0, ONE, [ONE, TWO], [TWO, ONE], 1)), [], COMMANDS)

    assert seen["problems"] == []
    assert [(row["id"], row["leads"], row["replicas"], row["outOfSync"]) for row in seen["brokers"]] == [
        (1, 1, 1, 0),
        (2, 0, 1, 0),
    ]
    assert seen["command"] == "barnabas cluster -b a:9092"


def test_an_offline_partition_comes_before_one_that_is_under_replicated() -> None:
    seen = overview(sample(Info(0, ONE, [ONE, TWO], [ONE], 1), Info(1, None, [TWO], [], 1)), [], COMMANDS)

    first, second = seen["problems"]
    assert (first["text"], first["subjects"], first["values"]) == ("problem.offline", ["t-1"], {"n": 1})
    assert first["command"] == "barnabas topic describe t -b a:9092"
    assert (second["text"], second["subjects"]) == ("problem.underReplicated", ["t-0"])


def test_no_controller_failed_directories_and_little_space_are_problems() -> None:
    disks = (Disk(1, "/a", 5, -1, -1, "offline"), Disk(2, "/b", 5, 100, 9, None), Disk(2, "/c", 5, 100, 10, None))
    controller = ActiveController(None, None, KafkaTimeoutError("no controller answers"))

    found = texts(sample(controller=controller, disks=disks))

    assert found == ["problem.noController", "problem.directoryFailed", "problem.littleSpace"]


def test_the_controller_is_the_quorums_which_may_be_no_broker_and_one_that_may_not_be_asked_for_is_no_problem() -> None:
    seen = overview(sample(controller=ActiveController(100, 7)), [], COMMANDS)

    assert (seen["controller"], seen["controllerEpoch"]) == (100, 7)
    assert not any(row["isController"] for row in seen["brokers"])
    assert texts(sample(controller=ActiveController(None, None, ClusterAuthorizationError("no")))) == []


def test_groups_that_lag_come_worst_first_with_their_lag_a_minute_ago() -> None:
    listing = GroupListing("g", "consumer", GroupState.STABLE, GroupType.CLASSIC)
    waits = {"b": Delay(90_000, is_at_least=True)}
    groups = {name: GroupSample(listing, {}, lag, waits.get(name)) for name, lag in [("a", 5), ("b", 50), ("c", 0)]}
    points = [
        Point(30_000, 1.0, {"b": 7}, {}),
        Point(40_001, 2.0, {"b": 70}, {}),
        Point(100_000, 3.0, {"b": 50}, {}),
    ]

    seen = overview(sample(groups=groups), points, COMMANDS)

    assert seen["lagging"] == [
        {"group": "b", "lag": 50, "delay": {"ms": 90_000, "isAtLeast": True}, "before": 70},
        {"group": "a", "lag": 5, "delay": None, "before": None},
    ]
    assert seen["history"] == [(40_001, 2.0), (100_000, 3.0)]


def test_rates_count_what_was_added_and_take_no_new_topic_for_a_burst() -> None:
    old, new = TopicPartition("old", 0), TopicPartition("new", 0)
    before = sample(ends={old: 100, TopicPartition("shrunk", 0): 9})

    rates = rates_between(before, {old: 150, new: 1000, TopicPartition("shrunk", 0): 3}, before.at_ms + 5000)

    assert rates == {"old": 10.0}
    assert rates_between(None, {old: 150}, 1) == {}
    assert rates_between(before, {old: 150}, before.at_ms) == {}


def test_lag_leaves_out_partitions_without_an_end_and_is_never_negative() -> None:
    one, two, three = (TopicPartition("t", number) for number in range(3))

    assert lag_of({one: 5, two: 5, three: 20}, {one: 15, three: 10}) == 10


def test_commands_are_quoted_for_a_shell() -> None:
    assert COMMANDS.line("topic", "describe", "a b;rm") == "barnabas topic describe 'a b;rm' -b a:9092"
