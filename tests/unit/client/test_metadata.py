"""What a client knows of the cluster, and when it asks again."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import pytest

from barnabas.client.bootstrap import parse_bootstrap_servers
from barnabas.client.cluster import Cluster
from barnabas.client.metadata import Metadata, MetadataRefresh
from barnabas.client.producer_metadata import ProducerMetadata
from barnabas.errors import (
    ConfigError,
    IllegalStateError,
    InvalidTopicError,
    KafkaTimeoutError,
    TopicAuthorizationError,
    UnsupportedVersionError,
)
from barnabas.network.node import Node
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.network_fakes import metadata_response

BROKERS = [(1, "one", 9092), (2, "two", 9092)]
T0 = TopicPartition("t", 0)


def make(**settings: Any) -> Metadata:
    return Metadata(MetadataRefresh(0.1, 1.0, 300.0, Random(1))._replace(**settings))


def make_for_producer(max_idle: float = 300.0) -> ProducerMetadata:
    return ProducerMetadata(
        MetadataRefresh(backoff=0.1, backoff_max=1.0, max_age=300.0, random=Random(1)), max_idle=max_idle
    )


# The snapshot


@pytest.mark.parametrize(("code", "asks"), [(3, True), (5, True), (-1, True), (17, False), (29, False)])
def test_a_topic_that_a_broker_could_not_tell_of_is_asked_for_again_unless_that_is_no_use(
    code: int, asks: bool
) -> None:
    """A broker of 3.9 whose session with ZooKeeper has just expired tells UNKNOWN_SERVER_ERROR of a topic."""
    metadata = make()
    metadata.update(metadata_response(BROKERS, errors={"t": code}), 0.0)
    assert metadata.update_requested is asks
    assert metadata.fetch().partition_count_for_topic("t") is None


def test_a_snapshot_answers_what_a_client_asks() -> None:
    metadata = make()
    metadata.update(metadata_response(BROKERS, {"t": 3, "__internal": 1}, leader=2, leader_epoch=4), 0.0)
    cluster = metadata.fetch()
    assert cluster.nodes == [Node(1, "one", 9092), Node(2, "two", 9092)]
    assert cluster.controller == Node(2, "two", 9092)
    assert cluster.partition_count_for_topic("t") == 3
    assert cluster.partition_count_for_topic("nope") is None
    assert cluster.leader_for(T0) == Node(2, "two", 9092)
    assert cluster.leader_for(TopicPartition("t", 3)) is None
    assert cluster.leader_for(TopicPartition("t", -1)) is None
    partition = cluster.partition(T0)
    assert partition is not None
    assert (partition.leader, partition.leader_epoch, partition.replicas) == (2, 4, (2,))
    topic_id = cluster.topic_id("t")
    assert topic_id is not None
    assert cluster.topic_name(topic_id) == "t"
    assert cluster.topic_name(bytes(16)) is None
    assert cluster.internal_topics == {"__internal"}
    assert cluster.cluster_id == "cluster"


def test_a_partition_whose_leader_is_gone_is_not_available() -> None:
    metadata = make()
    metadata.update(metadata_response(BROKERS, {"t": 2}, leader=7), 0.0)
    assert metadata.fetch().available_partitions_for_topic("t") == []
    assert len(metadata.fetch().partitions_for_topic("t")) == 2


def test_before_the_first_response_the_bootstrap_servers_are_known() -> None:
    metadata = make()
    metadata.bootstrap([Node(-1, "one", 9092)])
    assert metadata.fetch().is_bootstrap_configured
    assert metadata.fetch().nodes == [Node(-1, "one", 9092)]
    assert metadata.time_to_next_update(0.0) == 0
    metadata.update(metadata_response(BROKERS), 0.0)
    assert not metadata.fetch().is_bootstrap_configured


# When to ask


def test_it_is_asked_for_at_first_when_requested_and_when_it_is_old() -> None:
    metadata = make()
    assert metadata.time_to_next_update(1000.0) == 0
    metadata.update(metadata_response(BROKERS, {"t": 1}), 1000.0)
    assert metadata.time_to_next_update(1000.0) == 300.0
    assert metadata.time_to_next_update(1299.0) == 1.0
    assert metadata.time_to_next_update(1300.0) == 0
    metadata.request_update()
    assert metadata.update_requested
    assert 0 < metadata.time_to_next_update(1000.0) <= 0.12
    assert metadata.time_to_next_update(1000.2) == 0


def test_after_failures_it_is_asked_for_more_and_more_slowly() -> None:
    metadata = make()
    metadata.request_update()
    waits = []
    for _ in range(6):
        metadata.failed_update(1000.0)
        waits.append(metadata.time_to_next_update(1000.0))
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0], rel=0.21)
    metadata.update(metadata_response(BROKERS), 1001.0)
    metadata.request_update()
    metadata.failed_update(1001.0)
    assert metadata.time_to_next_update(1001.0) <= 0.12


def test_answers_that_bring_nothing_new_slow_the_asking_down() -> None:
    metadata = make()
    response = metadata_response(BROKERS, {"t": 1}, leader_epoch=5)
    waits = []
    for turn in range(6):
        metadata.update(response, float(turn))
        metadata.request_update(reset_equivalent_backoff=False)
        waits.append(metadata.time_to_next_update(float(turn)))
    assert waits == pytest.approx([0.1, 0.1, 0.2, 0.4, 0.8, 1.0], rel=0.21)
    metadata.update(metadata_response(BROKERS, {"t": 1}, leader_epoch=6), 9.0)
    metadata.request_update(reset_equivalent_backoff=False)
    assert metadata.time_to_next_update(9.0) <= 0.12


def test_a_fresh_wish_is_not_slowed_down_by_earlier_answers() -> None:
    metadata = make()
    for turn in range(6):
        metadata.update(metadata_response(BROKERS, {"t": 1}), float(turn))
    metadata.request_update()
    assert metadata.time_to_next_update(5.0) <= 0.12


def test_an_error_that_says_the_metadata_is_stale_asks_again() -> None:
    metadata = make()
    metadata.update(metadata_response(BROKERS, errors={"t": 5}), 0.0)
    assert metadata.update_requested
    metadata.update(metadata_response(BROKERS, {"t": 1}), 1.0)
    assert not metadata.update_requested


# Epochs


def test_an_older_leader_epoch_does_not_replace_a_newer_one() -> None:
    metadata = make()
    metadata.update(metadata_response(BROKERS, {"t": 1}, leader=1, leader_epoch=5), 0.0)
    metadata.update(metadata_response(BROKERS, {"t": 1}, leader=2, leader_epoch=4), 1.0)
    assert metadata.current_leader(T0) == (Node(1, "one", 9092), 5)
    metadata.update(metadata_response(BROKERS, {"t": 1}, leader=2, leader_epoch=6), 2.0)
    assert metadata.current_leader(T0) == (Node(2, "two", 9092), 6)


def test_a_topic_that_was_created_anew_starts_its_epochs_anew() -> None:
    metadata = make()
    metadata.update(metadata_response(BROKERS, {"t": 1}, leader=1, leader_epoch=5), 0.0)
    response = metadata_response(BROKERS, {"t": 1}, leader=2, leader_epoch=0)
    response.topics[0].topic_id = b"another topic id"
    metadata.update(response, 1.0)
    assert metadata.current_leader(T0) == (Node(2, "two", 9092), 0)


def test_a_newer_epoch_seen_elsewhere_makes_the_leader_unknown_and_asks_again() -> None:
    metadata = make()
    metadata.update(metadata_response(BROKERS, {"t": 1}, leader_epoch=5), 0.0)
    assert not metadata.update_last_seen_epoch_if_newer(T0, 5)
    assert not metadata.update_requested
    assert metadata.update_last_seen_epoch_if_newer(T0, 6)
    assert metadata.update_requested
    assert metadata.current_leader(T0) == (None, 6)
    assert not metadata.update_last_seen_epoch_if_newer(TopicPartition("unknown", 0), 6)


def test_responses_of_old_versions_have_no_reliable_epochs() -> None:
    metadata = make()
    metadata.update(metadata_response(BROKERS, {"t": 1}, leader_epoch=5), 0.0, version=8)
    assert metadata.last_seen_leader_epoch(T0) is None
    assert metadata.current_leader(T0).epoch == -1


def test_a_new_leader_named_by_a_fetch_response_is_known_at_once() -> None:
    metadata = make()
    metadata.update(metadata_response(BROKERS, {"t": 2}, leader=1, leader_epoch=5), 0.0)
    three = Node(3, "three", 9092)
    news = {T0: (3, 6), TopicPartition("t", 1): (2, 5), TopicPartition("u", 0): (2, 9)}
    assert metadata.update_partition_leadership(news, [three]) == {T0}
    assert metadata.fetch().leader_for(T0) == three
    assert metadata.current_leader(T0) == (three, 6)
    assert metadata.fetch().leader_for(TopicPartition("t", 1)) == Node(1, "one", 9092)


def test_epochs_of_topics_that_are_gone_are_forgotten() -> None:
    metadata = make()
    metadata.update(metadata_response(BROKERS, {"t": 2}), 0.0)
    metadata.update(metadata_response(BROKERS, {}), 1.0)
    assert metadata.last_seen_leader_epoch(T0) is None


# Errors


def test_topics_that_may_not_be_seen_are_an_error_once() -> None:
    metadata = make()
    metadata.update(metadata_response(BROKERS, {"ok": 1}, errors={"t": 29, "u": 29}), 0.0)
    metadata.raise_error_for_topic("ok")
    with pytest.raises(TopicAuthorizationError, match="u") as caught:
        metadata.raise_error_for_topic("u")
    assert caught.value.resources == ("u",)
    with pytest.raises(TopicAuthorizationError, match="t, u"):
        metadata.raise_any_error()
    metadata.raise_any_error()


def test_topics_whose_name_is_not_valid_are_an_error() -> None:
    metadata = make()
    metadata.update(metadata_response(BROKERS, errors={"a b": 17}), 0.0)
    assert metadata.fetch().invalid_topics == {"a b"}
    with pytest.raises(InvalidTopicError, match="a b"):
        metadata.raise_any_error()


def test_a_fatal_error_reaches_who_waits() -> None:
    metadata = make()
    metadata.bootstrap([Node(-1, "one", 9092)])
    threading.Timer(0.02, metadata.fatal_error, [UnsupportedVersionError("too old")]).start()
    with pytest.raises(UnsupportedVersionError, match="too old"):
        metadata.await_update(metadata.update_version, 5.0)


# Waiting


def test_waiting_ends_with_the_next_response() -> None:
    metadata = make()
    metadata.bootstrap([Node(-1, "one", 9092)])
    version = metadata.request_update()
    threading.Timer(0.02, metadata.update, [metadata_response(BROKERS), 0.0]).start()
    metadata.await_update(version, 5.0)
    assert metadata.update_version > version


def test_waiting_ends_when_the_time_is_over_or_the_client_closed() -> None:
    metadata = make()
    with pytest.raises(KafkaTimeoutError, match="no metadata came within"):
        metadata.await_update(metadata.update_version, 0.01)
    threading.Timer(0.02, metadata.close).start()
    with pytest.raises(IllegalStateError, match="closed"):
        metadata.await_update(metadata.update_version, 5.0)
    with pytest.raises(IllegalStateError, match="closed"):
        metadata.update(metadata_response(BROKERS), 0.0)


def test_listeners_get_each_snapshot_without_the_lock_held() -> None:
    metadata = make()
    seen: list[Cluster] = []

    def listen(cluster: Cluster) -> None:
        seen.append(cluster)
        done = threading.Event()
        threading.Thread(target=lambda: (metadata.request_update(), done.set())).start()
        assert done.wait(5)

    metadata.add_listener(listen)
    metadata.update(metadata_response(BROKERS, {"t": 1}), 0.0)
    assert seen == [metadata.fetch()]


# A producer's


def test_a_producer_asks_for_new_topics_alone_and_keeps_the_others() -> None:
    metadata = make_for_producer()
    metadata.add("t", 0.0)
    query = metadata.new_query(0.0)
    assert not query.is_partial
    metadata.update(metadata_response(BROKERS, {"t": 1}), 0.0, request_version=query.request_version)

    metadata.add("u", 1.0)
    assert metadata.time_to_next_update(1.0) == 0
    query = metadata.new_query(1.0)
    assert query.is_partial
    assert query.message.topics is not None
    assert [topic.name for topic in query.message.topics] == ["u"]
    metadata.update(metadata_response(BROKERS, {"u": 2}), 1.0, request_version=query.request_version, is_partial=True)
    assert set(metadata.fetch().topics) == {"t", "u"}
    assert not metadata.update_requested


def test_a_topic_added_while_a_request_is_under_way_is_asked_for_next() -> None:
    metadata = make_for_producer()
    metadata.add("t", 0.0)
    query = metadata.new_query(0.0)
    metadata.add("u", 0.0)
    metadata.update(metadata_response(BROKERS, {"t": 1}), 0.0, request_version=query.request_version)
    assert metadata.update_requested
    query = metadata.new_query(1.0)
    assert query.message.topics is not None
    assert [topic.name for topic in query.message.topics] == ["u"]


def test_a_producer_forgets_topics_that_are_idle() -> None:
    metadata = make_for_producer(max_idle=10.0)
    metadata.add("t", 0.0)
    metadata.add("u", 0.0)
    metadata.update(metadata_response(BROKERS, {"t": 1, "u": 1}), 1.0)
    metadata.add("u", 5.0)
    metadata.update(metadata_response(BROKERS, {"t": 1, "u": 1}), 11.0)
    assert set(metadata.fetch().topics) == {"u"}
    assert not metadata.contains_topic("t")
    assert metadata.contains_topic("u")


def test_a_new_topic_is_kept_however_long_its_metadata_takes() -> None:
    metadata = make_for_producer(max_idle=10.0)
    metadata.add("t", 0.0)
    metadata.update(metadata_response(BROKERS, {"t": 1}), 60.0)
    assert set(metadata.fetch().topics) == {"t"}


def test_a_producer_ignores_topics_that_it_did_not_ask_for() -> None:
    metadata = make_for_producer()
    metadata.add("t", 0.0)
    metadata.update(metadata_response(BROKERS, {"t": 1, "other": 1}), 1.0)
    assert set(metadata.fetch().topics) == {"t"}


def test_the_error_of_a_topic_can_be_asked_for() -> None:
    metadata = make_for_producer()
    metadata.add("t", 0.0)
    metadata.update(metadata_response(BROKERS, errors={"t": 3}), 1.0)
    assert metadata.error_for_topic("t") == 3
    assert metadata.error_for_topic("u") == 0
    assert metadata.update_requested


def test_sending_to_a_known_topic_asks_for_nothing() -> None:
    metadata = make_for_producer()
    metadata.add("t", 0.0)
    metadata.update(metadata_response(BROKERS, {"t": 1}), 0.0)
    metadata.add("t", 1.0)
    assert not metadata.update_requested
    assert metadata.request_update_for_topic("t") == metadata.update_version
    assert metadata.update_requested


# Where to start


@pytest.mark.parametrize(
    ("servers", "nodes"),
    [
        (["localhost:9092"], [Node(-1, "localhost", 9092)]),
        (["a:1", " b.c-d_e:2 "], [Node(-1, "a", 1), Node(-2, "b.c-d_e", 2)]),
        (["[::1]:9092"], [Node(-1, "::1", 9092)]),
        (["PLAINTEXT://a:1"], [Node(-1, "a", 1)]),
        (["", "a:1"], [Node(-1, "a", 1)]),
    ],
)
def test_bootstrap_servers_are_read(servers: list[str], nodes: list[Node]) -> None:
    assert parse_bootstrap_servers(servers) == nodes


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        (["localhost"], "must be host:port"),
        ([":9092"], "must be host:port"),
        (["a:port"], "the port must be a number"),
        (["a:0"], "the port must be a number"),
        (["a:65536"], "the port must be a number"),
        (["::1:9092"], "in brackets"),
        ([], "is empty"),
        ([" "], "is empty"),
        ([9092], "must be a string"),
    ],
)
def test_bootstrap_servers_that_cannot_be_read_are_an_error(servers: list[Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_bootstrap_servers(servers)
