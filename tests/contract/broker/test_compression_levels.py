"""`compression.*.level` of a topic decides how much the broker's own compression saves (KIP-390), as in Kafka."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from barnabas import AdminClient, Broker, NewTopic, Producer, TopicPartition
from tests.peers import apache_kafka

#: Codec → a low and a high level.
LEVELS = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (1, 19)}
#: One batch of words: enough for levels to differ.
_source = random.Random(20)
WORDS = ["".join(_source.choices("abcdefgh", k=_source.randint(3, 9))) for _ in range(3000)]
VALUES = [" ".join(_source.choices(WORDS, k=60)).encode() for _ in range(1200)]


def at_level(codec: str, level: int) -> dict[str, str]:
    return {"compression.type": codec, f"compression.{codec}.level": str(level)}


def stored_bytes(servers: str, topic: str, configs: dict[str, str]) -> int:
    """What a partition takes on disk for `VALUES`, which are sent uncompressed."""
    configs = {"max.message.bytes": "10000000", **configs}
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=1, configs=configs)])
        with Producer(
            bootstrap_servers=servers, batch_size=2_000_000, linger_ms=2000, max_request_size=5_000_000
        ) as producer:
            for value in VALUES:
                producer.send(topic, value)
        (broker,) = admin.describe_cluster().nodes
        (directory,) = admin.describe_log_dirs([broker.id])[broker.id].values()
        return directory.replica_infos[TopicPartition(topic, 0)].size


@pytest.mark.parametrize("codec", LEVELS)
def test_a_higher_level_stores_fewer_bytes(codec: str) -> None:
    low, high = LEVELS[codec]
    with Broker() as broker:
        servers = broker.bootstrap_servers
        sizes = {level: stored_bytes(servers, f"t{level}", at_level(codec, level)) for level in (low, high)}
    with Broker(config=at_level(codec, high)) as broker:
        by_default = stored_bytes(broker.bootstrap_servers, "t", {})

    assert sizes[high] < 0.95 * sizes[low]
    assert by_default == pytest.approx(sizes[high], rel=0.01)  # timestamps differ


@pytest.mark.parametrize("codec", LEVELS)
def test_the_sizes_are_those_of_apache_kafka(
    kafka: apache_kafka.ApacheKafka, new_name: Callable[[str], str], codec: str
) -> None:
    with Broker() as broker:
        for level in LEVELS[codec]:
            ours = stored_bytes(broker.bootstrap_servers, f"t{level}", at_level(codec, level))
            theirs = stored_bytes(kafka.bootstrap_servers, new_name("levels"), at_level(codec, level))
            assert ours == pytest.approx(theirs, rel=0.1), (codec, level)
