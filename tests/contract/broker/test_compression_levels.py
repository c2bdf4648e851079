"""`compression.*.level` of a topic decides how much the broker's own compression saves (KIP-390), as in Kafka."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

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


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker at the high levels, for topics that say none."""
    with Broker(config={f"compression.{codec}.level": high for codec, (_, high) in LEVELS.items()}) as running:
        yield running


@pytest.fixture(scope="module", params=LEVELS)
def sizes(request: pytest.FixtureRequest, broker: Broker) -> dict[tuple[str, int], int]:
    """What a codec makes of `VALUES` at its two levels."""
    codec: str = request.param
    return {
        (codec, level): stored_bytes(broker.bootstrap_servers, f"{codec}-{level}", at_level(codec, level))
        for level in LEVELS[codec]
    }


def test_a_higher_level_stores_fewer_bytes(sizes: dict[tuple[str, int], int]) -> None:
    low, high = sizes.values()
    assert high < 0.95 * low


def test_a_topic_without_a_level_has_that_of_the_broker(broker: Broker, sizes: dict[tuple[str, int], int]) -> None:
    (codec, level) = list(sizes)[-1]
    by_default = stored_bytes(broker.bootstrap_servers, codec, {"compression.type": codec})
    assert by_default == pytest.approx(sizes[codec, level], rel=0.01)  # timestamps differ


def test_the_sizes_are_those_of_apache_kafka(
    kafka: apache_kafka.ApacheKafka, new_name: Callable[[str], str], sizes: dict[tuple[str, int], int]
) -> None:
    for (codec, level), ours in sizes.items():
        theirs = stored_bytes(kafka.bootstrap_servers, new_name("levels"), at_level(codec, level))
        assert ours == pytest.approx(theirs, rel=0.1), (codec, level)
